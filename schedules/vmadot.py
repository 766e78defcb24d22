# SPDX-License-Identifier: Apache-2.0
"""A tensor intrinsic for SpacemiT's `vmadot`: 4x4 int32 sums of 8 int8 products a step.

LLVM 22 assembles the instruction but has no intrinsic for it, so the implementation brings a few
lines of LLVM's own language along, with the encoding in them: at 256 bits A is 4x8, row by row, in
`vs1`, B 8x4, column by column, in `vs2`, and C 4x4, row by row, in `vd` and the next register.
Importing this module registers them: a trace that names one replays only after that.
"""

from __future__ import annotations

from tvm import tirx
from tvm.s_tir import TensorIntrin
from tvm.script import tirx as T

ROWS, COLS, DEPTH = 4, 4, 8
FEATURE = "xsmtvdot"
STEPS = (32, 16, 8, 4, 2, 1)
_FUNCTION = "kope_vmadot"
_LLVM = f"""
define internal void @{_FUNCTION}(ptr %a, ptr %b, ptr %c, i32 %steps) {{
  call {{ ptr, ptr, i32 }} asm sideeffect "
    vsetivli zero, 16, e32, m2, ta, ma
    vle32.v v16, ($5)
    vsetvli t0, zero, e8, m1, ta, ma
1:  vle8.v v4, ($0)
    vle8.v v8, ($1)
    addi $0, $0, 32
    addi $1, $1, 32
    .insn r 0x2b, 3, 0x71, x16, x4, x8
    addi $2, $2, -1
    bnez $2, 1b
    vsetivli zero, 16, e32, m2, ta, ma
    vse32.v v16, ($5)",
    "=&r,=&r,=&r,0,1,r,2,~{{x5}},~{{v4}},~{{v8}},~{{v16}},~{{v17}},~{{vl}},~{{vtype}},~{{memory}}"
    (ptr %a, ptr %b, ptr %c, i32 %steps)
  ret void
}}
"""


def vmadot(steps: int) -> str:
    """What a trace calls the sum of so many products of 4x8 by 8x4."""
    return f"kope_vmadot_{ROWS}x{COLS}x{DEPTH * steps}"


def _description(steps: int) -> tirx.PrimFunc:
    @T.prim_func(s_tir=True)
    def description(left: T.handle, right: T.handle, out: T.handle) -> None:
        a = T.match_buffer(left, (steps, ROWS, DEPTH), "int8", offset_factor=1)
        b = T.match_buffer(right, (steps, COLS, DEPTH), "int8", offset_factor=1)
        c = T.match_buffer(out, (ROWS, COLS), "int32", offset_factor=1)
        with T.sblock("root"):
            T.reads(c[0:ROWS, 0:COLS], a[0:steps, 0:ROWS, 0:DEPTH], b[0:steps, 0:COLS, 0:DEPTH])
            T.writes(c[0:ROWS, 0:COLS])
            for i, j, k in T.grid(ROWS, COLS, steps * DEPTH):
                with T.sblock("update"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    c[vi, vj] = c[vi, vj] + T.cast(
                        a[vk // DEPTH, vi, vk % DEPTH], "int32"
                    ) * T.cast(b[vk // DEPTH, vj, vk % DEPTH], "int32")

    return description


def _implementation(steps: int) -> tirx.PrimFunc:
    @T.prim_func(s_tir=True)
    def implementation(left: T.handle, right: T.handle, out: T.handle) -> None:
        a = T.match_buffer(left, (steps, ROWS, DEPTH), "int8", offset_factor=1)
        b = T.match_buffer(right, (steps, COLS, DEPTH), "int8", offset_factor=1)
        c = T.match_buffer(out, (ROWS, COLS), "int32", offset_factor=1)
        with T.sblock("root"):
            T.reads(c[0:ROWS, 0:COLS], a[0:steps, 0:ROWS, 0:DEPTH], b[0:steps, 0:COLS, 0:DEPTH])
            T.writes(c[0:ROWS, 0:COLS])
            with T.attr(T.int32(0), "pragma_import_llvm", _LLVM):
                T.evaluate(
                    T.call_extern(
                        "void",
                        _FUNCTION,
                        a.access_ptr("r"),
                        b.access_ptr("r"),
                        c.access_ptr("rw"),
                        steps,
                    )
                )

    return implementation


for _steps in STEPS:
    TensorIntrin.register(
        vmadot(_steps), _description(_steps), _implementation(_steps), override=True
    )
