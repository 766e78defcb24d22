# SPDX-License-Identifier: Apache-2.0
"""Tensor intrinsics for weights in ggml's blocks: one or a few blocks of a row, 16 or 8 lanes.

The int8 sums of a lane are exact, and the scales multiply them. `vpdpbusd` and `vpmaddubsw` want
one operand without a sign: the weights, whose offset times the row's numbers comes off again. That
and the spread scales of the row are the same for all rows of weights, and LLVM shares them.
Importing this module registers them: a trace that names one replays only after that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import tvm
from tvm import tirx
from tvm.ir import Expr
from tvm.s_tir import TensorIntrin
from tvm.script import tirx as T
from tvm.target import codegen

from kope_tvm.ggml_blocks import HALF, Q4_0, Q8_0, BlockFormat, half_value
from kope_tvm.schedules import block_dots_code as code
from kope_tvm.schedules.sums import halved_sum, lane_sum
from kope_tvm.target import TargetSpec

_LLVM_MAJOR = 22


@dataclass(frozen=True)
class BlockDot:
    """One intrinsic: so many blocks of one row of weights, times as many of one row of numbers."""

    blocks: BlockFormat
    row_dtype: str
    """int8 with a scale a block, or float32."""
    num_blocks: int
    group: int
    """Neighbours that lie in one lane."""
    feature: str
    """LLVM's name of what the machine must have."""

    @property
    def block_lanes(self) -> int:
        """Of one block."""
        return HALF // self.group

    @property
    def lanes(self) -> int:
        return self.num_blocks * self.block_lanes

    @property
    def name(self) -> str:
        """What a trace calls it."""
        return f"kope_{self.blocks.name}_{self.row_dtype}_{self.num_blocks}_{self.feature}"

    @property
    def sum_name(self) -> str:
        """The intrinsic that adds its lanes up."""
        return lane_sum(self.lanes, "global") if "zve" in self.feature else halved_sum(self.lanes)


_KINDS = (
    ("int8", 4, 4, "avx512vnni"),
    ("int8", 2, 4, "avx2"),
    ("int8", 1, 1, "zve32f"),
    ("float32", 1, 1, "avx512f"),
    ("float32", 1, 1, "avx2"),
    ("float32", 1, 1, "zve32f"),
)
_DOTS = tuple(BlockDot(blocks, *kind) for blocks in (Q4_0, Q8_0) for kind in _KINDS)


def block_dot(
    blocks: BlockFormat, row_dtype: str, num_blocks: int, target: TargetSpec
) -> BlockDot | None:
    """The fastest that the machine has and that divides a row of `num_blocks`."""
    machine = tvm.target.Target(dict(target.tvm_target))
    fits = (
        dot
        for dot in _DOTS
        if (dot.blocks, dot.row_dtype) == (blocks, row_dtype) and num_blocks % dot.num_blocks == 0
    )
    return next((dot for dot in fits if _is_known(dot, machine)), None)


def _is_known(dot: BlockDot, machine: tvm.target.Target) -> bool:
    # older LLVM gives the VNNI intrinsic other operand types
    is_current = dot.feature != "avx512vnni" or codegen.llvm_version_major() >= _LLVM_MAJOR
    wanted = (dot.feature, "avx512vbmi") if dot.feature == "avx512vnni" else (dot.feature,)
    return is_current and all(codegen.target_has_features(each, machine) for each in wanted)


@dataclass(frozen=True)
class _Place:
    """Of one weight among those of an intrinsic."""

    lane: Expr
    half: Expr
    neighbour: Expr


def _term(dot: BlockDot, a: tirx.Buffer, b: tirx.Buffer, own: Expr | None, at: _Place) -> Expr:
    """What one weight adds to its lane; `own` is the scale of the row."""
    if dot.num_blocks > 1:
        block, within = at.lane // dot.block_lanes, at.lane % dot.block_lanes
    else:
        block, within = T.int32(0), at.lane
    place = dot.blocks.position(at.half, within * dot.group + at.neighbour)
    number = dot.blocks.value(b[block, place], at.half)
    scale = half_value(b[block, 0], b[block, 1])
    row = a[at.half, at.lane * dot.group + at.neighbour]
    if own is None:
        return row * (T.Cast("float32", number) * scale)
    return T.Cast("float32", T.Cast("int32", row) * number) * (own * scale)


def _grouped(dot: BlockDot) -> tirx.PrimFunc:
    """The description of several blocks of int8."""
    lanes, group, num_bytes = dot.lanes, dot.group, dot.blocks.num_bytes

    def term(
        a: tirx.Buffer, s: tirx.Buffer, b: tirx.Buffer, lane: Expr, half: Expr, i: Expr
    ) -> Expr:
        return _term(dot, a, b, s[lane // dot.block_lanes], _Place(lane, half, i))

    @T.prim_func(s_tir=True)
    def description(row: T.handle, scale: T.handle, col: T.handle, out: T.handle) -> None:
        a = T.match_buffer(row, (2, lanes * group), "int8", offset_factor=1)
        s = T.match_buffer(scale, (dot.num_blocks,), "float32", offset_factor=1)
        b = T.match_buffer(col, (dot.num_blocks, num_bytes), "uint8", offset_factor=1)
        c = T.match_buffer(out, (lanes,), "float32", offset_factor=1)
        with T.sblock("root"):
            T.reads(
                c[0:lanes],
                a[0:2, 0 : lanes * group],
                b[0 : dot.num_blocks, 0:num_bytes],
                s[0 : dot.num_blocks],
            )
            T.writes(c[0:lanes])
            for lane, half, i in T.grid(lanes, 2, group):
                with T.sblock("update"):
                    vl, vh, vi = T.axis.remap("SRR", [lane, half, i])
                    c[vl] = c[vl] + term(a, s, b, vl, vh, vi)

    return description


def _single(dot: BlockDot) -> tirx.PrimFunc:
    """The description of one block of int8."""
    lanes, num_bytes = dot.lanes, dot.blocks.num_bytes

    def term(a: tirx.Buffer, s: tirx.Buffer, b: tirx.Buffer, lane: Expr, half: Expr) -> Expr:
        return _term(dot, a, b, s[0], _Place(lane, half, T.int32(0)))

    @T.prim_func(s_tir=True)
    def description(row: T.handle, scale: T.handle, col: T.handle, out: T.handle) -> None:
        a = T.match_buffer(row, (2, lanes), "int8", offset_factor=1)
        s = T.match_buffer(scale, (1,), "float32", offset_factor=1)
        b = T.match_buffer(col, (1, num_bytes), "uint8", offset_factor=1)
        c = T.match_buffer(out, (lanes,), "float32", offset_factor=1)
        with T.sblock("root"):
            T.reads(c[0:lanes], a[0:2, 0:lanes], b[0, 0:num_bytes], s[0])
            T.writes(c[0:lanes])
            for lane, half in T.grid(lanes, 2):
                with T.sblock("update"):
                    vl, vh = T.axis.remap("SR", [lane, half])
                    c[vl] = c[vl] + term(a, s, b, vl, vh)

    return description


def _plain(dot: BlockDot) -> tirx.PrimFunc:
    """The description of one block of floats."""
    lanes, num_bytes = dot.lanes, dot.blocks.num_bytes

    def term(a: tirx.Buffer, b: tirx.Buffer, lane: Expr, half: Expr) -> Expr:
        return _term(dot, a, b, None, _Place(lane, half, T.int32(0)))

    @T.prim_func(s_tir=True)
    def description(row: T.handle, col: T.handle, out: T.handle) -> None:
        a = T.match_buffer(row, (2, lanes), "float32", offset_factor=1)
        b = T.match_buffer(col, (1, num_bytes), "uint8", offset_factor=1)
        c = T.match_buffer(out, (lanes,), "float32", offset_factor=1)
        with T.sblock("root"):
            T.reads(c[0:lanes], a[0:2, 0:lanes], b[0, 0:num_bytes])
            T.writes(c[0:lanes])
            for lane, half in T.grid(lanes, 2):
                with T.sblock("update"):
                    vl, vh = T.axis.remap("SR", [lane, half])
                    c[vl] = c[vl] + term(a, b, vl, vh)

    return description


def _description(dot: BlockDot) -> tirx.PrimFunc:
    if dot.row_dtype != "int8":
        return _plain(dot)
    return _grouped(dot) if dot.num_blocks > 1 else _single(dot)


def _implementation(dot: BlockDot, total: Callable[..., Expr]) -> tirx.PrimFunc:
    lanes, group, num_bytes = dot.lanes, dot.group, dot.blocks.num_bytes

    if dot.row_dtype == "int8":

        @T.prim_func(s_tir=True)
        def exact(row: T.handle, scale: T.handle, col: T.handle, out: T.handle) -> None:
            a = T.match_buffer(row, (2, lanes * group), "int8", offset_factor=1)
            s = T.match_buffer(scale, (dot.num_blocks,), "float32", offset_factor=1)
            b = T.match_buffer(col, (dot.num_blocks, num_bytes), "uint8", offset_factor=1)
            c = T.match_buffer(out, (lanes,), "float32", offset_factor=1)
            with T.sblock("root"):
                T.reads(
                    c[0:lanes],
                    a[0:2, 0 : lanes * group],
                    b[0 : dot.num_blocks, 0:num_bytes],
                    s[0 : dot.num_blocks],
                )
                T.writes(c[0:lanes])
                c[T.ramp(T.int32(0), 1, lanes)] = c.vload([0], f"float32x{lanes}") + total(a, b, s)

        return exact

    @T.prim_func(s_tir=True)
    def plain(row: T.handle, col: T.handle, out: T.handle) -> None:
        a = T.match_buffer(row, (2, lanes), "float32", offset_factor=1)
        b = T.match_buffer(col, (1, num_bytes), "uint8", offset_factor=1)
        c = T.match_buffer(out, (lanes,), "float32", offset_factor=1)
        with T.sblock("root"):
            T.reads(c[0:lanes], a[0:2, 0:lanes], b[0, 0:num_bytes])
            T.writes(c[0:lanes])
            c[T.ramp(T.int32(0), 1, lanes)] = c.vload([0], f"float32x{lanes}") + total(a, b)

    return plain


_CODE: dict[tuple[str, str], Callable[..., Expr]] = {
    ("int8", "avx512vnni"): code.vnni,
    ("int8", "avx2"): code.pairs,
    ("int8", "zve32f"): code.shorts,
    ("float32", "avx512f"): code.floats_by_table,
    ("float32", "avx2"): code.floats,
    ("float32", "zve32f"): code.floats_by_bits,
}

for _dot in _DOTS:
    _total = partial(_CODE[_dot.row_dtype, _dot.feature], _dot.blocks)
    _made = _description(_dot), _implementation(_dot, _total)
    TensorIntrin.register(_dot.name, *_made, override=True)
