# SPDX-License-Identifier: Apache-2.0
"""Tensor intrinsics that sum int8 products in each int32 lane: neighbours on x86, one on RVV.

`vpdpbusd` multiplies unsigned by signed, so the row operand gets 128 added, and 128 times the sum
of the column operand, which rows share, comes off again. Without VNNI it is `vpmaddwd` of int16.
RVV multiplies a vector by a scalar register: spread in bytes and then widened, as a schedule alone
would have it, the scalar takes two instructions more.
Importing this module registers them: a trace that names one replays only after that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import tvm
from tvm import tirx
from tvm.ir import Expr
from tvm.s_tir import TensorIntrin
from tvm.script import tirx as T
from tvm.target import codegen

from kope_tvm.target import TargetSpec

_LLVM_MAJOR = 22
_Total = Callable[[tirx.Buffer, tirx.Buffer, tirx.Buffer], Expr]


@dataclass(frozen=True)
class WideningDot:
    """A tensor intrinsic: `lanes` int32 sums, each of `depth` products of int8."""

    lanes: int
    depth: int
    group: int
    """Neighbours of the reduction that lie together in a packed column operand."""
    feature: str
    """LLVM's name of what the machine must have."""
    instruction: str = ""
    """LLVM's intrinsic on x86; on RVV LLVM finds the instruction."""

    @property
    def name(self) -> str:
        """What a trace calls it."""
        return f"kope_dot_{self.lanes}x{self.depth}_{self.feature}"


_DOTS = (
    *(WideningDot(16, d, 4, "avx512vnni", "avx512.vpdpbusd.512") for d in (16, 8, 4)),
    WideningDot(16, 2, 2, "avx512bw", "avx512.pmaddw.d.512"),
    WideningDot(8, 2, 2, "avx2", "avx2.pmadd.wd"),
    WideningDot(4, 2, 2, "sse2", "sse2.pmadd.wd"),
    *(WideningDot(lanes, depth, 1, "zve32x") for lanes in (4, 8, 16, 32) for depth in (2, 4)),
)


def widening_dots(lanes: int, extent: int, target: TargetSpec) -> list[WideningDot]:
    """The two fastest that the machine has and that divide a reduction of `extent`."""
    machine = tvm.target.Target(dict(target.tvm_target))
    fits = [dot for dot in _DOTS if dot.lanes == lanes and extent % dot.depth == 0]
    return [dot for dot in fits if _is_known(dot, machine)][:2]


def _is_known(dot: WideningDot, machine: tvm.target.Target) -> bool:
    # older LLVM gives the VNNI intrinsic other operand types
    is_current = dot.group != 4 or codegen.llvm_version_major() >= _LLVM_MAJOR
    return is_current and bool(codegen.target_has_features(dot.feature, machine))


def _description(dot: WideningDot) -> tirx.PrimFunc:
    lanes, depth, group = dot.lanes, dot.depth, dot.group
    shape, whole = _column_shape(dot), _whole(dot)

    def column(b: tirx.Buffer, lane: Expr, k: Expr) -> Expr:
        return b[k, lane] if group == 1 else b[k // group, lane, k % group]

    @T.prim_func(s_tir=True)
    def description(row: T.handle, col: T.handle, out: T.handle) -> None:
        a = T.match_buffer(row, (depth,), "int8", offset_factor=1)
        b = T.match_buffer(col, shape, "int8", offset_factor=1)
        c = T.match_buffer(out, (lanes,), "int32", offset_factor=1, scope="local")
        with T.sblock("root"):
            T.reads(c[0:lanes], a[0:depth], whole(b))
            T.writes(c[0:lanes])
            for i, k in T.grid(lanes, depth):
                with T.sblock("update"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    c[vi] = c[vi] + T.cast(a[vk], "int32") * T.cast(column(b, vi, vk), "int32")

    return description


def _column_shape(dot: WideningDot) -> tuple[int, ...]:
    neighbours = (dot.group,) if dot.group > 1 else ()
    return (dot.depth // dot.group, dot.lanes, *neighbours)


def _whole(dot: WideningDot) -> Callable[[tirx.Buffer], tirx.BufferRegion]:
    region = tuple(slice(0, size) for size in _column_shape(dot))
    return lambda b: b[region]


def _implementation(dot: WideningDot, total: _Total) -> tirx.PrimFunc:
    lanes, depth = dot.lanes, dot.depth
    shape, whole = _column_shape(dot), _whole(dot)

    @T.prim_func(s_tir=True)
    def implementation(row: T.handle, col: T.handle, out: T.handle) -> None:
        a = T.match_buffer(row, (depth,), "int8", offset_factor=1)
        b = T.match_buffer(col, shape, "int8", offset_factor=1)
        c = T.match_buffer(out, (lanes,), "int32", offset_factor=1, scope="local")
        with T.sblock("root"):
            T.reads(c[0:lanes], a[0:depth], whole(b))
            T.writes(c[0:lanes])
            c[T.ramp(T.int32(0), 1, lanes)] = total(a, b, c)

    return implementation


def _call(dot: WideningDot, *args: Expr) -> Expr:
    number = T.llvm_lookup_intrinsic_id(f"llvm.x86.{dot.instruction}")
    return T.call_llvm_pure_intrin(number, *args, dtype=f"int32x{dot.lanes}")


def _quads(dot: WideningDot) -> _Total:
    lanes, group = dot.lanes, dot.group
    sums, size = f"int32x{lanes}", lanes * group

    def spread(group: Expr) -> Expr:
        return T.reinterpret(T.broadcast(group, lanes), dtype=f"int8x{size}")

    def total(a: tirx.Buffer, b: tirx.Buffer, c: tirx.Buffer) -> Expr:
        # the sign bit of each byte
        flip = T.int32(-0x7F7F7F80)
        added = T.broadcast(T.int32(0), lanes)
        result = c.vload([0], dtype=sums)
        for q in range(dot.depth // group):
            row = T.reinterpret(a.vload([q * group], f"int8x{group}"), dtype="int32")
            col = b.vload([q, 0, 0], dtype=f"int8x{size}")
            result = _call(dot, result, spread(T.bitwise_xor(row, flip)), col)
            added = _call(dot, added, spread(flip), col)
        return result - added

    return total


def _pairs(dot: WideningDot) -> _Total:
    lanes = dot.lanes
    sums, size = f"int32x{lanes}", lanes * dot.group

    def total(a: tirx.Buffer, b: tirx.Buffer, c: tirx.Buffer) -> Expr:
        pair = T.reinterpret(T.cast(a.vload([0], "int8x2"), "int16x2"), dtype="int32")
        row = T.reinterpret(T.broadcast(pair, lanes), dtype=f"int16x{size}")
        col = T.cast(b.vload([0, 0, 0], dtype=f"int8x{size}"), f"int16x{size}")
        return c.vload([0], dtype=sums) + _call(dot, row, col)

    return total


def _singles(dot: WideningDot) -> _Total:
    lanes = dot.lanes

    def total(a: tirx.Buffer, b: tirx.Buffer, c: tirx.Buffer) -> Expr:
        result = c.vload([0], dtype=f"int32x{lanes}")
        for k in range(dot.depth):
            row = T.broadcast(_opaque(T.Cast("int32", a[k])), lanes)
            result = result + row * T.Cast(f"int32x{lanes}", b.vload([k, 0], f"int8x{lanes}"))
        return result

    return total


def _opaque(value: Expr) -> Expr:
    """The same int32, which LLVM's middle end does not see through: it would spread it in bytes."""
    number = T.llvm_lookup_intrinsic_id("llvm.annotation")
    nothing = T.reinterpret(T.uint64(0), dtype="handle")
    return T.call_llvm_pure_intrin(number, value, nothing, nothing, T.int32(0), dtype="int32")


_TOTALS = {4: _quads, 2: _pairs, 1: _singles}

for _dot in _DOTS:
    _made = _description(_dot), _implementation(_dot, _TOTALS[_dot.group](_dot))
    TensorIntrin.register(_dot.name, *_made, override=True)
