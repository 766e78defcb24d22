# SPDX-License-Identifier: Apache-2.0
"""A tensor intrinsic that adds up the lanes of one vector, in order, by one instruction.

Halves of a vector have to be taken apart lane by lane where its length is a machine's own: RVV.
Importing this module registers them: a trace that names one replays only after that.
"""

from __future__ import annotations

from tvm import tirx
from tvm.s_tir import TensorIntrin
from tvm.script import tirx as T

_LANES = (8, 16, 32)


def lane_sum(lanes: int) -> str:
    """What a trace calls the sum of so many float32 lanes; the result stays in registers."""
    return f"kope_sum_{lanes}_float32"


def _description(lanes: int) -> tirx.PrimFunc:
    @T.prim_func(s_tir=True)
    def description(parts: T.handle, out: T.handle) -> None:
        p = T.match_buffer(parts, (lanes,), "float32", offset_factor=1, scope="local")
        c = T.match_buffer(out, (1,), "float32", offset_factor=1, scope="local")
        with T.sblock("root"):
            T.reads(c[0], p[0:lanes])
            T.writes(c[0])
            for k in range(lanes):
                with T.sblock("update"):
                    vk = T.axis.reduce(lanes, k)
                    c[0] = c[0] + p[vk]

    return description


def _implementation(lanes: int) -> tirx.PrimFunc:
    @T.prim_func(s_tir=True)
    def implementation(parts: T.handle, out: T.handle) -> None:
        p = T.match_buffer(parts, (lanes,), "float32", offset_factor=1, scope="local")
        c = T.match_buffer(out, (1,), "float32", offset_factor=1, scope="local")
        with T.sblock("root"):
            T.reads(c[0], p[0:lanes])
            T.writes(c[0])
            c[0] = T.call_llvm_pure_intrin(
                T.llvm_lookup_intrinsic_id("llvm.vector.reduce.fadd"),
                c[0],
                p.vload([0], dtype=f"float32x{lanes}"),
                dtype="float32",
            )

    return implementation


for _lanes in _LANES:
    TensorIntrin.register(
        lane_sum(_lanes), _description(_lanes), _implementation(_lanes), override=True
    )
