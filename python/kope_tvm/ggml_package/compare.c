// SPDX-License-Identifier: Apache-2.0
// The operator beside ggml_mul_mat of the same tensors: how far off each is, and how long it takes.
// Both run in turns, in graphs of their own, on the same threads: `compare [THREADS [TURNS]]`.
#define _POSIX_C_SOURCE 200809L
#include <ggml-backend.h>
#include <ggml-cpu.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "kope_compare.h"

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static int by_size(const void* left, const void* right) {
  double a = *(const double*)left, b = *(const double*)right;
  return (a > b) - (a < b);
}

static double median(double* values, int count) {
  qsort(values, (size_t)count, sizeof *values, by_size);
  return values[count / 2];
}

static float* uniform(size_t count, unsigned seed) {
  float* made = malloc(count * sizeof *made);
  for (size_t i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    made[i] = (float)(seed >> 8) / 8388608.0f - 1.0f;
  }
  return made;
}

// The largest error over the root mean square of what is right.
static double error(const float* found, const double* wanted, size_t count) {
  double worst = 0, sum = 0;
  for (size_t i = 0; i < count; ++i) {
    double off = fabs(found[i] - wanted[i]);
    if (!(off <= worst)) worst = off;
    sum += wanted[i] * wanted[i];
  }
  return worst / sqrt(sum / (double)count);
}

// In float64, of the weights as they are stored.
static double* product(const float* rows, const void* weights) {
  size_t row_bytes = ggml_row_size(TYPE, K);
  float* unpacked = malloc(K * sizeof *unpacked);
  double* made = malloc((size_t)M * N * sizeof *made);
  for (size_t n = 0; n < N; ++n) {
    ggml_get_type_traits(TYPE)->to_float((const char*)weights + n * row_bytes, unpacked, K);
    for (size_t m = 0; m < M; ++m) {
      double sum = 0;
      for (size_t k = 0; k < K; ++k) sum += (double)rows[m * K + k] * unpacked[k];
      made[m * N + n] = sum;
    }
  }
  free(unpacked);
  return made;
}

typedef struct {
  struct ggml_context* ctx;
  struct ggml_cgraph* graph;
  struct ggml_tensor* out;
} Side;

static Side side(ggml_backend_t backend, struct ggml_tensor* weights, const float* values,
                 int is_ours) {
  struct ggml_init_params room = {1 << 20, NULL, true};
  Side made = {ggml_init(room), NULL, NULL};
  struct ggml_tensor* rows = ggml_new_tensor_2d(made.ctx, GGML_TYPE_F32, K, M);
  made.out = is_ours ? OPERATOR(made.ctx, rows, weights) : ggml_mul_mat(made.ctx, weights, rows);
  made.graph = ggml_new_graph(made.ctx);
  ggml_build_forward_expand(made.graph, made.out);
  ggml_backend_alloc_ctx_tensors(made.ctx, backend);
  ggml_backend_tensor_set(rows, values, 0, ggml_nbytes(rows));
  return made;
}

static double turn(ggml_backend_t backend, Side one) {
  double start = now();
  ggml_backend_graph_compute(backend, one.graph);
  return now() - start;
}

// Weights in the layout that ggml's own products like best, where it has one for this machine.
static ggml_backend_buffer_type_t repacked(ggml_backend_t backend) {
  ggml_backend_dev_t device = ggml_backend_get_device(backend);
  ggml_backend_dev_get_extra_bufts_t list =
      (ggml_backend_dev_get_extra_bufts_t)ggml_backend_reg_get_proc_address(
          ggml_backend_dev_backend_reg(device), "ggml_backend_dev_get_extra_bufts");
  ggml_backend_buffer_type_t* found = list ? list(device) : NULL;
  return found && found[0] ? found[0] : ggml_backend_cpu_buffer_type();
}

// NULL where that kind of memory has no layout of its own for the type, which `extra` would hold.
static struct ggml_tensor* stored(ggml_backend_buffer_type_t where, const void* packed) {
  struct ggml_init_params room = {1 << 16, NULL, true};
  struct ggml_context* ctx = ggml_init(room);
  struct ggml_tensor* made = ggml_new_tensor_2d(ctx, TYPE, K, N);
  ggml_backend_alloc_ctx_tensors_from_buft(ctx, where);
  if (where != ggml_backend_cpu_buffer_type() && !made->extra) return NULL;
  ggml_backend_tensor_set(made, packed, 0, ggml_nbytes(made));
  return made;
}

static void quiet(enum ggml_log_level level, const char* text, void* data) {
  (void)level, (void)text, (void)data;
}

int main(int argc, char** argv) {
  int num_threads = argc > 1 ? atoi(argv[1]) : 2, num_turns = argc > 2 ? atoi(argv[2]) : 101;
  ggml_log_set(quiet, NULL);
  ggml_backend_t backend = ggml_backend_cpu_init();
  struct ggml_threadpool_params params = ggml_threadpool_params_default(num_threads);
  struct ggml_threadpool* pool = ggml_threadpool_new(&params);
  ggml_backend_cpu_set_n_threads(backend, num_threads);
  ggml_backend_cpu_set_threadpool(backend, pool);

  float *rows = uniform((size_t)M * K, 1), *dense = uniform((size_t)N * K, 2);
  void* packed = malloc(ggml_row_size(TYPE, K) * N);
  ggml_quantize_chunk(TYPE, dense, packed, 0, N, K, NULL);
  double* wanted = product(rows, packed);

  struct ggml_tensor* plain = stored(ggml_backend_cpu_buffer_type(), packed);
  struct ggml_tensor* best = stored(repacked(backend), packed);
  Side sides[] = {side(backend, plain, rows, 1), side(backend, plain, rows, 0),
                  side(backend, best ? best : plain, rows, 0)};
  const char* names[] = {"kope", "ggml", "ggml_repacked"};
  double* secs[3];
  for (int i = 0; i < 3; ++i) {
    secs[i] = malloc((size_t)num_turns * sizeof **secs);
    for (int warm = 0; warm < 3; ++warm) turn(backend, sides[i]);
  }
  for (int at = 0; at < num_turns; ++at)
    for (int i = 0; i < 3; ++i) {
      turn(backend, sides[i]);
      secs[i][at] = turn(backend, sides[i]);
    }
  int is_wrong = 0;
  for (int i = 0; i < 3; ++i) {
    float* found = malloc((size_t)M * N * sizeof *found);
    ggml_backend_tensor_get(sides[i].out, found, 0, (size_t)M * N * sizeof *found);
    double off = error(found, wanted, (size_t)M * N), middle = median(secs[i], num_turns);
    printf("%s: error %.3g, median %.2f us, best %.2f us, quartiles %.2f to %.2f us\n", names[i],
           off, middle * 1e6, secs[i][0] * 1e6, secs[i][num_turns / 4] * 1e6,
           secs[i][num_turns * 3 / 4] * 1e6);
    if (i == 0) is_wrong = !(off <= ALLOWED);
  }
  return is_wrong;
}
