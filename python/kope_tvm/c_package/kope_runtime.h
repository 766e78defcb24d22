// SPDX-License-Identifier: Apache-2.0
// What stands between a C function and the kernels that TVM compiled: tables, and how to walk them.
#pragma once

#include <stddef.h>
#include <stdint.h>

#define KOPE_ALIGNMENT 64

enum { KOPE_OK, KOPE_NULL, KOPE_UNALIGNED, KOPE_NO_MEMORY, KOPE_REFUSED, KOPE_MACHINE };
enum { KOPE_PARAM, KOPE_ARENA, KOPE_CONSTANT };

// An argument of a kernel and a tensor, as TVM's C interface has them.
typedef struct {
  int32_t kind, zero;
  union {
    int64_t as_int;
    void* as_pointer;
  };
} KopeAny;

typedef struct {
  void* data;
  int32_t device_type, device_id, ndim;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *strides;
  uint64_t byte_offset;
} KopeTensor;

typedef int (*KopeKernel)(void* self, KopeAny* arguments, int32_t num_arguments, KopeAny* result);

typedef struct {
  uint8_t place, code, bits, ndim;
  uint32_t shape;  // Where it begins in the table of shapes.
  uint64_t at, size;
} KopeOperand;

// Without a kernel, its first operand is copied into its second.
typedef struct {
  KopeKernel kernel;
  uint32_t first, num_operands;
} KopeStep;

typedef struct {
  const KopeStep* steps;
  const KopeOperand* operands;
  const int64_t* shapes;
  const char* constants;
  size_t arena_size;
  int num_steps, num_params;
} KopeFunction;

int kope_run(const KopeFunction* function, void* const* params);
const char* kope_message(int code);
void kope_set_threads(int count);

// Calls `run` with 0 to `count` - 1, in any order and on any threads, and returns 0 after the last.
// With KOPE_HOST_LOOPS, the program around has to provide it; there is no pool here then.
int kope_parallel_for(void (*run)(void* data, size_t number), size_t count, void* data);
