// SPDX-License-Identifier: Apache-2.0
// Under a user-mode emulator; the simulated board listens for the call that Linux does not have.
#include <stdlib.h>
#include <unistd.h>

#include "abi.h"

#define CALL_NUMBER 0x4b50

char kope_arena[256 << 20] __attribute__((aligned(4096)));

void platform_region(int op, int64_t value) { syscall(CALL_NUMBER, op, value); }

void platform_write(const void* bytes, size_t size) {
  const char* next = bytes;
  while (size) {
    ssize_t written = write(1, next, size);
    if (written <= 0) exit(2);
    next += written;
    size -= (size_t)written;
  }
}

void platform_exit(int status) { exit(status); }
