// SPDX-License-Identifier: Apache-2.0
// The C side of a compiled function: what it is given, and what it expects of a runtime.
#pragma once

#include <stddef.h>
#include <stdint.h>

#define KIND_INT 1
#define KIND_FLOAT 3
#define KIND_TENSOR 7

typedef struct {
  int32_t kind, zero;
  union {
    int64_t as_int;
    double as_float;
    void* as_pointer;
  };
} Any;

typedef struct {
  void* data;
  int32_t device_type, device_id, ndim;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *strides;
  uint64_t byte_offset;
} Tensor;

typedef struct {
  void* sync;
  int32_t num_task;
} Group;

typedef int (*Task)(int task, Group* group, void* data);

// One argument in the image of them; a scalar has a size of 0 and lies in `shape`.
typedef struct {
  int64_t kind, code, bits, ndim, is_written, size, shape[6], data;
} Argument;

typedef struct {
  int64_t num_arguments, num_cores, num_warm, num_timed;
  Argument arguments[];
} Image;

extern char kope_image[], kope_arena[];
int ENTRY(void* self, Any* arguments, int32_t num_arguments, Any* result);

// platform_*.c
void platform_region(int op, int64_t value);
void platform_write(const void* bytes, size_t size);
void platform_exit(int status) __attribute__((noreturn));
