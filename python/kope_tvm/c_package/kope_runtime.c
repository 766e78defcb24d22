// SPDX-License-Identifier: Apache-2.0
// Calls kernels in their order, and is the part of a runtime that they ask for: memory, errors and
// parallel loops.
#define _POSIX_C_SOURCE 200809L
#include "kope_runtime.h"

#include <stdlib.h>
#include <string.h>

#include "kope_machine.h"

#if defined KOPE_HOST_LOOPS && !defined KOPE_SERIAL
#include <stdatomic.h>
#elif !defined KOPE_SERIAL
#include <pthread.h>
#endif

#ifndef KOPE_POINTER_ALIGNMENT
#define KOPE_POINTER_ALIGNMENT KOPE_ALIGNMENT
#endif

#define CPU 1
#define KIND_TENSOR 7
#define MAX_OPERANDS 64
#define MAX_THREADS 256

static _Thread_local char refusal[256];

void TVMFFIErrorSetRaisedFromCStrParts(const char* kind, const char** parts, int32_t num_parts);

void TVMFFIErrorSetRaisedFromCStrParts(const char* kind, const char** parts, int32_t num_parts) {
  size_t length = 0;
  (void)kind;
  for (int32_t i = 0; i < num_parts; ++i)
    for (const char* next = parts[i]; next && *next && length + 1 < sizeof refusal; ++next)
      refusal[length++] = *next;
  refusal[length] = 0;
}

static void* allocate(size_t size) {
  size_t whole = (size + KOPE_ALIGNMENT - 1) / KOPE_ALIGNMENT * KOPE_ALIGNMENT;
  return aligned_alloc(KOPE_ALIGNMENT, whole ? whole : KOPE_ALIGNMENT);
}

static void* take_workspace(int type, int id, uint64_t size, int code, int bits) {
  (void)type, (void)id, (void)code, (void)bits;
  return allocate((size_t)size);
}

static int free_workspace(int type, int id, void* pointer) {
  (void)type, (void)id;
  free(pointer);
  return 0;
}

typedef struct {
  void* sync;
  int32_t num_task;
} Group;

typedef int (*Task)(int task, Group* group, void* data);

static int run_in_turn(Task run, void* data, int num_tasks) {
  Group group = {NULL, num_tasks ? num_tasks : 1};
  int status = 0;
  for (int task = 0; task < group.num_task; ++task) status |= run(task, &group, data);
  return status;
}

#ifdef KOPE_SERIAL

static int launch(Task run, void* data, int num_tasks) { return run_in_turn(run, data, num_tasks); }

void kope_set_threads(int count) { (void)count; }

#elif defined KOPE_HOST_LOOPS

typedef struct {
  Task run;
  void* data;
  Group group;
  atomic_int status;
} Loop;

static void run_one(void* data, size_t task) {
  Loop* loop = data;
  int status = loop->run((int)task, &loop->group, loop->data);
  if (status) atomic_store(&loop->status, status);
}

static int launch(Task run, void* data, int num_tasks) {
  if (num_tasks == 1) return run_in_turn(run, data, num_tasks);
  Loop loop = {run, data, {NULL, num_tasks ? num_tasks : KOPE_THREADS}, 0};
  int refused = kope_parallel_for(run_one, (size_t)loop.group.num_task, &loop);
  return refused ? refused : atomic_load(&loop.status);
}

void kope_set_threads(int count) { (void)count; }

#else

// One loop at a time has the threads; a loop that begins meanwhile runs where it was called.
static pthread_mutex_t region = PTHREAD_MUTEX_INITIALIZER;

static struct {
  pthread_mutex_t lock;
  pthread_cond_t wake, done;
  pthread_t threads[MAX_THREADS];
  int num_wanted, num_started, is_closing;
  Task run;
  void* data;
  Group group;
  int next, num_running, status;
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER,
          .wake = PTHREAD_COND_INITIALIZER,
          .done = PTHREAD_COND_INITIALIZER,
          .num_wanted = KOPE_THREADS};

// Called and left with the lock held.
static void run_tasks(void) {
  while (pool.next < pool.group.num_task) {
    int task = pool.next++;
    ++pool.num_running;
    pthread_mutex_unlock(&pool.lock);
    int status = pool.run(task, &pool.group, pool.data);
    pthread_mutex_lock(&pool.lock);
    pool.status |= status;
    if (--pool.num_running == 0) pthread_cond_signal(&pool.done);
  }
}

static void* work(void* none) {
  pthread_mutex_lock(&pool.lock);
  while (!pool.is_closing) {
    run_tasks();
    if (!pool.is_closing) pthread_cond_wait(&pool.wake, &pool.lock);
  }
  pthread_mutex_unlock(&pool.lock);
  return none;
}

// The caller is one of the threads; with fewer than wanted it does more of the work.
static void start_threads(void) {
  while (pool.num_started < pool.num_wanted - 1) {
    if (pthread_create(&pool.threads[pool.num_started], NULL, work, NULL)) break;
    ++pool.num_started;
  }
}

static int launch(Task run, void* data, int num_tasks) {
  if (pthread_mutex_trylock(&region)) return run_in_turn(run, data, num_tasks);
  pthread_mutex_lock(&pool.lock);
  start_threads();
  pool.run = run, pool.data = data, pool.status = 0, pool.next = 0;
  pool.group = (Group){NULL, num_tasks ? num_tasks : pool.num_wanted};
  pthread_cond_broadcast(&pool.wake);
  run_tasks();
  while (pool.num_running) pthread_cond_wait(&pool.done, &pool.lock);
  int status = pool.status;
  pthread_mutex_unlock(&pool.lock);
  pthread_mutex_unlock(&region);
  return status;
}

// Their code goes away with the library.
__attribute__((destructor)) static void stop_threads(void) {
  pthread_mutex_lock(&pool.lock);
  pool.is_closing = 1;
  pthread_cond_broadcast(&pool.wake);
  pthread_mutex_unlock(&pool.lock);
  while (pool.num_started) pthread_join(pool.threads[--pool.num_started], NULL);
}

void kope_set_threads(int count) {
  pthread_mutex_lock(&region);
  pool.num_wanted = count < 1 ? 1 : count > MAX_THREADS ? MAX_THREADS : count;
  pthread_mutex_unlock(&region);
}

#endif

// Compiled code holds these three as weak pointers.
void* __TVMBackendAllocWorkspace = (void*)take_workspace;
void* __TVMBackendFreeWorkspace = (void*)free_workspace;
void* __TVMBackendParallelLaunch = (void*)launch;

static char* place_of(const KopeFunction* function, const KopeOperand* operand, void* const* params,
                      char* arena) {
  if (operand->place == KOPE_PARAM) return params[operand->at];
  if (operand->place == KOPE_ARENA) return arena + operand->at;
  return (char*)(uintptr_t)function->constants + operand->at;
}

static int run_step(const KopeFunction* function, const KopeStep* step, void* const* params,
                    char* arena) {
  KopeTensor tensors[MAX_OPERANDS];
  KopeAny arguments[MAX_OPERANDS], result = {0, 0, {0}};
  const KopeOperand* operands = function->operands + step->first;
  for (uint32_t i = 0; i < step->num_operands; ++i) {
    const KopeOperand* each = &operands[i];
    int64_t* shape = (int64_t*)(uintptr_t)(function->shapes + each->shape);
    char* data = place_of(function, each, params, arena);
    tensors[i] = (KopeTensor){data, CPU, 0, each->ndim, each->code, each->bits, 1, shape, NULL, 0};
    arguments[i] = (KopeAny){KIND_TENSOR, 0, {.as_pointer = &tensors[i]}};
  }
  if (step->kernel) return step->kernel(NULL, arguments, (int32_t)step->num_operands, &result);
  memmove(tensors[1].data, tensors[0].data, operands[0].size);
  return 0;
}

// Code for longer vectors computes wrong values on shorter ones.
static int is_able(void) {
#ifdef KOPE_VLEN_BITS
  uintptr_t vector_bytes;
  __asm__("csrr %0, 0xc22" : "=r"(vector_bytes));
  return vector_bytes * 8 >= KOPE_VLEN_BITS;
#else
  return 1;
#endif
}

int kope_run(const KopeFunction* function, void* const* params) {
  for (int i = 0; i < function->num_params; ++i) {
    if (!params[i]) return KOPE_NULL;
    if ((uintptr_t)params[i] % KOPE_POINTER_ALIGNMENT) return KOPE_UNALIGNED;
  }
  if (!is_able()) return KOPE_MACHINE;
  char* arena = NULL;
  if (function->arena_size && !(arena = allocate(function->arena_size))) return KOPE_NO_MEMORY;
  int status = 0;
  refusal[0] = 0;
  for (int i = 0; i < function->num_steps && !status; ++i)
    status = run_step(function, &function->steps[i], params, arena);
  free(arena);
  return status ? KOPE_REFUSED : KOPE_OK;
}

const char* kope_message(int code) {
  switch (code) {
    case KOPE_OK:
      return "done";
    case KOPE_NULL:
      return "a pointer is NULL";
    case KOPE_UNALIGNED:
      return "a pointer is not a multiple of 64; aligned_alloc(64, ...) gives such";
    case KOPE_NO_MEMORY:
      return "no memory for intermediate results";
    case KOPE_REFUSED:
      return refusal[0] ? refusal : "a kernel failed";
    case KOPE_MACHINE:
      return "the vectors of this machine are shorter than those that it is compiled for";
    default:
      return "no such code";
  }
}
