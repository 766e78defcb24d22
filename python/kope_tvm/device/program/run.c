// SPDX-License-Identifier: Apache-2.0
// Calls the function and writes what it wrote; also the few parts of a runtime that it may call.
#include "abi.h"

#define MAX_ARGUMENTS 32
#define ALIGNMENT 64

enum { OP_START = 1, OP_STOP, OP_LAUNCH, OP_TASK, OP_JOIN };

static const Image* const image = (const Image*)kope_image;
static char* arena;

void TVMFFIErrorSetRaisedFromCStrParts(const char* kind, const char** parts, int32_t num_parts) {
  (void)kind, (void)parts, (void)num_parts;
}

static void* take(uint64_t size) {
  char* taken = arena;
  arena += (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  return taken;
}

static void* allocate(int type, int id, uint64_t size, int code, int bits) {
  (void)type, (void)id, (void)code, (void)bits;
  return take(size);
}

static int release(int type, int id, void* pointer) {
  (void)type, (void)id;
  arena = pointer;  // A stack: the function frees in the opposite order.
  return 0;
}

// The tasks of a parallel loop one after another; the simulated board knows them as its cores'.
static int launch(Task run, void* data, int num_tasks) {
  Group group = {&group, num_tasks ? num_tasks : (int32_t)image->num_cores};
  int status = 0;
  platform_region(OP_LAUNCH, 0);
  for (int task = 0; task < group.num_task; ++task) {
    platform_region(OP_TASK, task);
    status |= run(task, &group, data);
  }
  platform_region(OP_JOIN, 0);
  return status;
}

void* __TVMBackendAllocWorkspace = (void*)allocate;
void* __TVMBackendFreeWorkspace = (void*)release;
void* __TVMBackendParallelLaunch = (void*)launch;

static void* copied(const char* from, uint64_t size) {
  char* to = take(size);
  for (uint64_t i = 0; i < size; ++i) to[i] = from[i];
  return to;
}

static void prepare(const Argument* given, Any* value, Tensor* tensor) {
  value->kind = (int32_t)given->kind;
  if (given->kind != KIND_TENSOR) {
    value->as_int = given->shape[0];
    return;
  }
  void* data = copied(kope_image + given->data, (uint64_t)given->size);
  *tensor = (Tensor){data,
                     1,
                     0,
                     (int32_t)given->ndim,
                     (uint8_t)given->code,
                     (uint8_t)given->bits,
                     1,
                     (int64_t*)given->shape,
                     NULL,
                     0};
  value->as_pointer = tensor;
}

int main(void) {
  static Any values[MAX_ARGUMENTS], result;
  static Tensor tensors[MAX_ARGUMENTS];
  int32_t num = (int32_t)image->num_arguments;
  int status = 0;
  arena = kope_arena;
  for (int32_t i = 0; i < num; ++i) prepare(&image->arguments[i], &values[i], &tensors[i]);
  for (int64_t i = 0; i < image->num_warm; ++i) status |= ENTRY(NULL, values, num, &result);
  for (int64_t i = 0; i < image->num_timed; ++i) {
    platform_region(OP_START, 0);
    status |= ENTRY(NULL, values, num, &result);
    platform_region(OP_STOP, 0);
  }
  for (int32_t i = 0; i < num; ++i)
    if (image->arguments[i].is_written)
      platform_write(tensors[i].data, (size_t)image->arguments[i].size);
  platform_exit(status ? 1 : 0);
}
