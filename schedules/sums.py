# SPDX-License-Identifier: Apache-2.0
"""A tensor intrinsic that adds up the lanes of one vector, in order, by one instruction.

Halves of a vector have to be taken apart lane by lane where its length is a machine's own: RVV.
Importing this module registers them: a trace that names one replays only after that.
"""

from __future__ import annotations

from itertools import product

from tvm import tirx
from tvm.ir import Expr
from tvm.s_tir import TensorIntrin
from tvm.script import tirx as T

_LANES = (8, 16, 32)
_SCOPES = ("local", "global")
"""TVM by itself has a small buffer on the stack where its scope is global; kope, either."""


def lane_sum(lanes: int, scope: str = "local") -> str:
    """What a trace calls the sum of so many float32 lanes; the result stays in registers."""
    return f"kope_sum_{lanes}_float32{'' if scope == 'local' else '_' + scope}"


def _description(lanes: int, scope: str) -> tirx.PrimFunc:
    @T.prim_func(s_tir=True)
    def description(parts: T.handle, out: T.handle) -> None:
        p = T.match_buffer(parts, (lanes,), "float32", offset_factor=1, scope=scope)
        c = T.match_buffer(out, (1,), "float32", offset_factor=1, scope=scope)
        with T.sblock("root"):
            T.reads(c[0], p[0:lanes])
            T.writes(c[0])
            for k in range(lanes):
                with T.sblock("update"):
                    vk = T.axis.reduce(lanes, k)
                    c[0] = c[0] + p[vk]

    return description


def _implementation(lanes: int, scope: str) -> tirx.PrimFunc:
    @T.prim_func(s_tir=True)
    def implementation(parts: T.handle, out: T.handle) -> None:
        p = T.match_buffer(parts, (lanes,), "float32", offset_factor=1, scope=scope)
        c = T.match_buffer(out, (1,), "float32", offset_factor=1, scope=scope)
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


def halved_sum(lanes: int) -> str:
    """What a trace calls a sum by halves of halves: short where registers are split for nothing."""
    return f"kope_sum_{lanes}_float32_by_halves"


def _halving(lanes: int) -> tirx.PrimFunc:
    def total(p: tirx.Buffer) -> Expr:
        found = p.vload([0], f"float32x{lanes}")
        for half in (lanes >> shift for shift in range(1, lanes.bit_length())):
            parts = [
                tirx.Shuffle([found], [T.int32(begin + lane) for lane in range(half)])
                for begin in (0, half)
            ]
            found = parts[0] + parts[1]
        return found

    @T.prim_func(s_tir=True)
    def implementation(parts: T.handle, out: T.handle) -> None:
        p = T.match_buffer(parts, (lanes,), "float32", offset_factor=1)
        c = T.match_buffer(out, (1,), "float32", offset_factor=1)
        with T.sblock("root"):
            T.reads(c[0], p[0:lanes])
            T.writes(c[0])
            c[0] = c[0] + total(p)

    return implementation


for _lanes, _scope in product(_LANES, _SCOPES):
    _made = _description(_lanes, _scope), _implementation(_lanes, _scope)
    TensorIntrin.register(lane_sum(_lanes, _scope), *_made, override=True)
for _lanes in _LANES:
    TensorIntrin.register(
        halved_sum(_lanes), _description(_lanes, "global"), _halving(_lanes), override=True
    )
