// SPDX-License-Identifier: Apache-2.0
// Who calls is one of several threads that compute one operator together: no pool of threads here.
#include <stddef.h>

#include "kope_machine.h"
#include "kope_runtime.h"

void KOPE_SHARE(int number, int count);

static _Thread_local struct {
  int number, count;
} share = {0, 1};

void KOPE_SHARE(int number, int count) {
  share.number = number;
  share.count = count;
}

int kope_parallel_for(void (*run)(void* data, size_t number), size_t count, void* data) {
  size_t begin = count * (size_t)share.number / (size_t)share.count;
  size_t end = count * ((size_t)share.number + 1) / (size_t)share.count;
  for (size_t at = begin; at < end; ++at) run(data, at);
  return 0;
}
