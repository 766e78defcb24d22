// SPDX-License-Identifier: Apache-2.0
  .section .rodata
  .balign 64
  .globl kope_image
kope_image:
  .incbin IMAGE
  .section .note.GNU-stack,"",@progbits
