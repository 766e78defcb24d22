// SPDX-License-Identifier: Apache-2.0
// On a bare machine, machine mode, with the host interface of Spike: calls go through `tohost`.
#include "abi.h"

#define CALL_WRITE 64

volatile uint64_t tohost __attribute__((section(".tohost"), aligned(64)));
volatile uint64_t fromhost __attribute__((section(".tohost"), aligned(64)));
char kope_thread[4096] __attribute__((aligned(64)));
volatile uint64_t kope_cycles __attribute__((aligned(64)));

void kope_main(void);
int main(void);

__attribute__((naked, section(".start"))) void _start(void) {
  __asm__(
      ".option push\n.option norelax\nla gp, __global_pointer$\n.option pop\n"
      "li t0, 0x6600\ncsrs mstatus, t0\n"  // FS and VS: floating point and vectors on.
      "la t0, trapped\ncsrw mtvec, t0\n"
      "la sp, kope_stack_end\n"
      "la tp, kope_thread\naddi tp, tp, 2047\n"
      "call main\n");
}

__attribute__((naked, aligned(4), used)) static void trapped(void) {
  __asm__("csrr a0, mcause\naddi a0, a0, 64\nj platform_exit\n");
}

static uint64_t cycles(void) {
  uint64_t now;
  __asm__ volatile("csrr %0, mcycle" : "=r"(now));
  return now;
}

void platform_region(int op, int64_t value) {
  (void)value;
  if (op == 1) kope_cycles = cycles();
  if (op == 2) kope_cycles = cycles() - kope_cycles;
}

void platform_write(const void* bytes, size_t size) {
  static volatile uint64_t call[8] __attribute__((aligned(64)));
  call[0] = CALL_WRITE;
  call[1] = 1;
  call[2] = (uint64_t)bytes;
  call[3] = size;
  __sync_synchronize();
  tohost = (uint64_t)call;
  while (!fromhost) {
  }
  fromhost = 0;
}

void platform_exit(int status) {
  for (;;) tohost = (uint64_t)status << 1 | 1;
}
