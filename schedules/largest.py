# SPDX-License-Identifier: Apache-2.0
"""A tensor intrinsic for the largest size among the floats of one vector.

Importing this module registers it: a trace that names one replays only after that.
"""

from __future__ import annotations

from tvm import tirx
from tvm.s_tir import TensorIntrin
from tvm.script import tirx as T

_LANES = (32,)


def largest_of(lanes: int) -> str:
    """What a trace calls the maximum of so many absolute values."""
    return f"kope_largest_{lanes}_float32"


def _description(lanes: int) -> tirx.PrimFunc:
    @T.prim_func(s_tir=True)
    def description(data: T.handle, out: T.handle) -> None:
        a = T.match_buffer(data, (lanes,), "float32", offset_factor=1)
        c = T.match_buffer(out, (1,), "float32", offset_factor=1)
        with T.sblock("root"):
            T.reads(c[0], a[0:lanes])
            T.writes(c[0])
            for k in range(lanes):
                with T.sblock("update"):
                    vk = T.axis.reduce(lanes, k)
                    c[0] = T.max(c[0], T.fabs(a[vk]))

    return description


def _implementation(lanes: int) -> tirx.PrimFunc:
    @T.prim_func(s_tir=True)
    def implementation(data: T.handle, out: T.handle) -> None:
        a = T.match_buffer(data, (lanes,), "float32", offset_factor=1)
        c = T.match_buffer(out, (1,), "float32", offset_factor=1)
        with T.sblock("root"):
            T.reads(c[0], a[0:lanes])
            T.writes(c[0])
            c[0] = T.max(
                c[0],
                T.call_llvm_pure_intrin(
                    T.llvm_lookup_intrinsic_id("llvm.vector.reduce.fmax"),
                    T.fabs(a.vload([0], dtype=f"float32x{lanes}")),
                    dtype="float32",
                ),
            )

    return implementation


for _lanes in _LANES:
    TensorIntrin.register(
        largest_of(_lanes), _description(_lanes), _implementation(_lanes), override=True
    )
