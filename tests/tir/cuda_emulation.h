// SPDX-License-Identifier: Apache-2.0
// What TVM's CUDA source needs, for a CPU: a block's threads are fibers, one block at a time.
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __restrict__
#define uint unsigned int
#define __align__(n) __attribute__((aligned(n)))
#define uchar unsigned char
#define ushort unsigned short

using std::max;
using std::min;
typedef _Float16 half;

struct Index3 { int x, y, z; };
static Index3 threadIdx, blockIdx;
struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
struct alignas(8) int2 { int x, y; };
struct alignas(16) int4 { int x, y, z, w; };
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(4) uchar4 { unsigned char x, y, z, w; };
struct alignas(4) char4 { signed char x, y, z, w; };
struct alignas(4) half2 { half x, y; };
static inline float2 make_float2(float x, float y) { return {x, y}; }
static inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
static inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
static inline int2 make_int2(int x, int y) { return {x, y}; }
static inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
static inline half2 make_half2(half x, half y) { return {x, y}; }
static inline unsigned bits_of(half2 v) { unsigned u; memcpy(&u, &v, 4); return u; }
static inline unsigned __pack_half2(half x, half y) { return bits_of({x, y}); }
static inline half __float2half_rn(float x) { return (half)x; }
static inline half hexp(half x) { return (half)expf((float)x); }
static inline half htanh(half x) { return (half)tanhf((float)x); }
static inline half hlog(half x) { return (half)logf((float)x); }
static inline half hsqrt(half x) { return (half)sqrtf((float)x); }
static inline half hrsqrt(half x) { return (half)(1.0f / sqrtf((float)x)); }
static inline half __hmax(half x, half y) { return x > y ? x : y; }
static inline half __hmin(half x, half y) { return x < y ? x : y; }
static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
#define __expf expf

enum Wait { RUNNING, WARP, BLOCK, DONE };
struct Fiber {
  ucontext_t context;
  std::vector<char> stack;
  Index3 index;
  Wait wait;
};
static std::vector<Fiber> fibers;
static std::vector<uint64_t> slots;
static ucontext_t scheduler;
static int current;
static void (*body)();

static void pause_at(Wait wait) {
  int me = current;
  fibers[me].wait = wait;
  swapcontext(&fibers[me].context, &scheduler);
}

static inline void __syncthreads() { pause_at(BLOCK); }
static inline void __syncwarp() { pause_at(WARP); }
static inline unsigned __activemask() { return 0xffffffffu; }

template <typename T>
static T exchanged(T value, int lane) {
  int first = current / 32 * 32, me = current;
  memcpy(&slots[me], &value, sizeof(T));
  pause_at(WARP);
  T found = value;
  if (lane >= 0 && lane < 32 && first + lane < (int)fibers.size()) memcpy(&found, &slots[first + lane], sizeof(T));
  pause_at(WARP);
  return found;
}
template <typename T>
static T __shfl_down_sync(unsigned, T value, int delta, int width = 32) {
  int lane = current % 32;
  return exchanged(value, lane % width + delta < width ? lane + delta : lane);
}
template <typename T>
static T __shfl_up_sync(unsigned, T value, int delta, int width = 32) {
  int lane = current % 32;
  return exchanged(value, lane % width - delta >= 0 ? lane - delta : lane);
}
template <typename T>
static T __shfl_xor_sync(unsigned, T value, int mask, int width = 32) {
  (void)width;
  return exchanged(value, (current % 32) ^ mask);
}
template <typename T>
static T __shfl_sync(unsigned, T value, int source, int width = 32) {
  return exchanged(value, current % 32 / width * width + source % width);
}

static void enter() {
  body();
  fibers[current].wait = DONE;
  swapcontext(&fibers[current].context, &scheduler);
}

static bool warp_is_ready(int warp) {
  bool any = false;
  for (int t = warp * 32; t < std::min((warp + 1) * 32, (int)fibers.size()); ++t) {
    if (fibers[t].wait == RUNNING) return false;
    any |= fibers[t].wait == WARP;
  }
  return any;
}

static void release(bool (*may)(int, int), int argument) {
  for (int t = 0; t < (int)fibers.size(); ++t)
    if (may(t, argument)) fibers[t].wait = RUNNING;
}

static void run_block(Index3 block) {
  int count = (int)fibers.size();
  for (int t = 0; t < count; ++t) {
    Fiber& fiber = fibers[t];
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.data();
    fiber.context.uc_stack.ss_size = fiber.stack.size();
    fiber.context.uc_link = &scheduler;
    fiber.wait = RUNNING;
    makecontext(&fiber.context, enter, 0);
  }
  blockIdx = block;
  for (;;) {
    for (int t = 0; t < count; ++t) {
      if (fibers[t].wait != RUNNING) continue;
      current = t;
      threadIdx = fibers[t].index;
      swapcontext(&scheduler, &fibers[t].context);
    }
    bool released = false;
    for (int warp = 0; warp * 32 < count; ++warp) {
      if (!warp_is_ready(warp)) continue;
      release([](int t, int w) { return t / 32 == w && fibers[t].wait == WARP; }, warp);
      released = true;
    }
    if (released) continue;
    bool all_done = true;
    for (auto& fiber : fibers) all_done &= fiber.wait == DONE;
    if (all_done) return;
    release([](int t, int) { return fibers[t].wait == BLOCK; }, 0);
  }
}

static void run_grid(Index3 grid, Index3 block, void (*kernel)()) {
  body = kernel;
  fibers.resize(block.x * block.y * block.z);
  slots.assign(fibers.size(), 0);
  for (int t = 0; t < (int)fibers.size(); ++t) {
    fibers[t].stack.resize(256 << 10);
    fibers[t].index = {t % block.x, t / block.x % block.y, t / block.x / block.y};
  }
  for (int z = 0; z < grid.z; ++z)
    for (int y = 0; y < grid.y; ++y)
      for (int x = 0; x < grid.x; ++x) run_block({x, y, z});
}
