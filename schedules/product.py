# SPDX-License-Identifier: Apache-2.0
"""Matrix products: register tiles over packed column panels, epilogue in the tile.

Takes any product of two operands whose iterators are plain indices: NN, NT, TN, batched,
with odd sizes (padded while packing) and widening integer types.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod

from tvm import IRModule, tirx
from tvm.ir.expr import TensorLoad
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV

from kope_tvm.schedules.analysis import Access, Analysis, Block, analyse
from kope_tvm.schedules.contraction import (
    Roles,
    lanes_of,
    padded_rows,
    power_of_two_divisor,
    tile_anchor,
    tile_space,
)
from kope_tvm.schedules.dot import tile_dot
from kope_tvm.schedules.operands import (
    fuse_epilogue,
    is_multiply_add,
    pack_panels,
    producer_of,
    settle_producers,
    stage,
    stage_pack,
    stage_panel,
)
from kope_tvm.schedules.streamed import stream
from kope_tvm.schedules.widening import WideningDot, widening_dots
from kope_tvm.target import Facts, TargetSpec

_NEAR_BYTES = 4096
_FEW_ROWS = 4
"""Packing for a tensor intrinsic costs so few rows more than it wins."""
_PANEL_VECTORS = 4
"""The widest column panel of a register tile."""


@dataclass(frozen=True)
class _Layout:
    """One way to run the product: how far to pad, and whether to pack the column operand."""

    lanes: int
    rows: int
    """Padded."""
    cols: int
    """Padded."""
    packed: bool
    near: bool = False
    """Pack a column panel where it is used, not all of them beforehand."""
    dot: WideningDot | None = None
    """The tensor intrinsic that adds several neighbours of the reduction at once."""

    @property
    def group(self) -> int:
        """Neighbours of the reduction that lie together in the packed column operand."""
        return self.dot.group if self.dot else 1


def products(func: tirx.PrimFunc, target: TargetSpec) -> list[Schedule]:
    """Design spaces of a matrix product, the best guess first; empty where it is none."""
    info = analyse(func)
    anchor = info.anchor if info else None
    if info is None or anchor is None or not is_multiply_add(anchor):
        return []
    lanes = lanes_of(anchor.stores[0].dtype, target.facts)
    roles = _roles(anchor, lanes) if lanes else None
    if roles is None:
        return []
    layouts = _layouts(anchor, roles, lanes, target)
    built = [_build(func, info, anchor, roles, layout, target.facts) for layout in layouts]
    if _is_dot(anchor, roles):
        built.insert(0, _build_lone_row(func, info, anchor, roles, lanes, target.facts, tile_dot))
    if _is_streamed(anchor, roles, lanes, target.facts):
        built.insert(0, _build_lone_row(func, info, anchor, roles, lanes, target.facts, stream))
    return [sch for sch in built if sch is not None]


def _is_dot(anchor: Block, roles: Roles) -> bool:
    """Whether there is one row, and the reduction is the contiguous dimension of both operands."""
    rows = [anchor.iters[i].extent for i in (*roles.outer, roles.row)]
    deep = roles.reduce[-1]
    alike = all(load.stride(deep) == 1 for load in anchor.loads)
    return max(rows) == 1 and alike and anchor.iters[deep].extent > 1


def _is_streamed(anchor: Block, roles: Roles, lanes: int, facts: Facts) -> bool:
    """Whether there is one row, and a matrix beyond the near caches that lies row by row.

    Cores out of order look far enough ahead of the first one without.
    """
    rows = [anchor.iters[i].extent for i in (*roles.outer, roles.row)]
    matrix, deep = anchor.loads[roles.rhs], anchor.iters[roles.reduce[-1]].extent
    width = anchor.iters[roles.col].extent
    near_bytes = facts.l1_bytes if facts.isa == "rvv" else facts.num_cores * facts.l2_bytes
    return (
        max(rows) == 1
        and matrix.stride(roles.col) == 1
        and width % lanes == 0
        and deep * width * 4 > near_bytes
    )


def _build_lone_row(
    func: tirx.PrimFunc,
    info: Analysis,
    anchor: Block,
    roles: Roles,
    lanes: int,
    facts: Facts,
    tile: Callable[[Schedule, SBlockRV, SBlockRV, Roles, int, Facts], None],
) -> Schedule | None:
    sch = Schedule(IRModule({"main": func}))
    epilogue = fuse_epilogue(sch, info, anchor, lanes, facts)
    stay = settle_producers(sch, info, anchor, {load.buffer for load in anchor.loads})
    if epilogue is None or stay is None:
        return None
    for other in stay:
        stage(sch, sch.get_sblock(other.name), lanes, facts)
    tile(sch, sch.get_sblock(anchor.name), epilogue, roles, lanes, facts)
    return sch


def _roles(anchor: Block, lanes: int) -> Roles | None:
    out, (a, b) = anchor.stores[0], anchor.loads
    lhs, rhs = 0, 1
    if not all(_is_plain(access, anchor) for access in (out, a, b)):
        return None
    spatial = [i for i, it in enumerate(anchor.iters) if it.kind == "S"]
    reduce = tuple(i for i, it in enumerate(anchor.iters) if it.kind == "R")
    rows = [i for i in spatial if i in a.iters and i not in b.iters]
    cols = [i for i in spatial if i in b.iters and i not in a.iters]
    if not rows or not cols or not all(i in a.iters and i in b.iters for i in reduce):
        return None
    row = max(rows, key=lambda i: (anchor.iters[i].extent, i))
    col = max(cols, key=lambda i: (anchor.iters[i].extent, i))
    swap = anchor.iters[col].extent < lanes <= anchor.iters[row].extent
    if out.stride(row) == 1 and anchor.iters[row].extent >= lanes:
        swap = True
    if swap:
        row, col, lhs, rhs = col, row, 1, 0
    outer = tuple(i for i in spatial if i not in (row, col))
    return Roles(outer, row, col, reduce, lhs, rhs)


def _is_plain(access: Access, block: Block) -> bool:
    """Whether every index is one iterator or the zero of a unit dimension, none used twice."""
    used = [index.iters for index in access.indices]
    single = [iters[0] for iters in used if iters]
    return (
        all(len(iters) <= 1 for iters in used)
        and all(ix.is_iter(ix.iters[0]) if ix.iters else ix.const == 0 for ix in access.indices)
        and len(set(single)) == len(single)
        and all(block.iters[i].extent == access.shape[p] for p, i in _pairs(access))
    )


def _pairs(access: Access) -> list[tuple[int, int]]:
    return [(p, ix.iters[0]) for p, ix in enumerate(access.indices) if ix.iters]


def _layouts(anchor: Block, roles: Roles, lanes: int, target: TargetSpec) -> list[_Layout]:
    facts = target.facts
    rows, cols = anchor.iters[roles.row].extent, anchor.iters[roles.col].extent
    registers = max(facts.vector_registers, 8)
    rhs = anchor.loads[roles.rhs]
    full = -(-cols // lanes) * lanes
    best = _Layout(lanes, padded_rows(rows, registers), full, packed=True)
    wide = (registers - 3) // 2
    layouts = [best]
    if rows > 4 * wide and best.rows == rows:
        layouts.append(_Layout(lanes, -(-rows // wide) * wide, full, packed=True))
    depth = prod(anchor.iters[i].extent for i in roles.reduce)
    if full > lanes and depth * _PANEL_VECTORS * lanes * 4 <= facts.l2_bytes // 2:
        near = _Layout(lanes, best.rows, full, packed=True, near=True)
        # every panel passes by all rows, which stay in L2 meanwhile or come from beyond each time
        rows_stay = rows * depth * 4 <= facts.l2_bytes // 2
        layouts = [near, *layouts] if rows_stay else [*layouts, near]
    narrow = power_of_two_divisor(cols, lanes)
    if rhs.stride(roles.col) == 1 and narrow * 2 >= lanes:
        direct = _Layout(narrow, best.rows, cols, packed=False)
        # a column panel of far rows thrashes the cache sets that its lines share
        is_dense = max(rhs.stride(i) for i in roles.reduce) * 4 <= _NEAR_BYTES
        layouts = [direct, *layouts] if rows <= 16 or is_dense else [*layouts, direct]
    if _is_int8_dot(anchor, roles):
        dots = widening_dots(lanes, anchor.iters[roles.reduce[-1]].extent, target)
        summed = [replace(it, dot=dot) for dot in dots for it in layouts if it.packed]
        layouts = [*layouts, *summed] if rows <= _FEW_ROWS else [*summed, *layouts[:1]]
    return layouts


def _is_int8_dot(anchor: Block, roles: Roles) -> bool:
    """Whether int8 meets int8 in int32, and the row operand is contiguous in the reduction."""
    deep = roles.reduce[-1]
    lhs = anchor.loads[roles.lhs]
    return (
        [load.dtype for load in anchor.loads] == ["int8", "int8"]
        and anchor.stores[0].dtype == "int32"
        # as the intrinsics are written: sum + row operand * column operand
        and isinstance(anchor.body.value.a, TensorLoad)
        and roles.lhs == 0
        and lhs.stride(deep) == 1
        and lhs.dim_of(deep) == len(lhs.shape) - 1
    )


def _build(
    func: tirx.PrimFunc, info: Analysis, anchor: Block, roles: Roles, layout: _Layout, facts: Facts
) -> Schedule | None:
    sch = Schedule(IRModule({"main": func}))
    epilogue = fuse_epilogue(sch, info, anchor, layout.lanes, facts)
    if epilogue is None:
        return None
    block = sch.get_sblock(anchor.name)
    grown = _pad(sch, anchor, block, roles, layout)
    pack = _pack(sch, anchor, block, roles, layout) if layout.packed else None
    moved = {roles.rhs: pack is not None, roles.lhs: grown}
    kept = {anchor.loads[i].buffer for i, has_moved in moved.items() if not has_moved}
    stay = settle_producers(sch, info, anchor, kept)
    if stay is None:
        return None
    for other in stay:
        stage(sch, sch.get_sblock(other.name), layout.lanes, facts)
    if pack is not None and not layout.near:
        stage_pack(sch, anchor.loads[roles.rhs], pack, roles, layout.lanes, facts, layout.group)
    if grown:
        stage(sch, producer_of(sch, block, roles.lhs), layout.lanes, facts)
    panel = _tile(sch, anchor, block, epilogue, roles, layout, facts)
    if pack is not None and layout.near:
        stage_panel(sch, anchor.loads[roles.rhs], pack, panel, roles, layout.lanes, layout.group)
    if layout.dot:
        sch.tensorize(sch.get_loops(block)[-2], layout.dot.name)
    return sch


def _pack(sch: Schedule, anchor: Block, block: SBlockRV, roles: Roles, layout: _Layout) -> SBlockRV:
    """The block that writes the column operand in panels: a copy, or the one that pads it."""
    is_padded = anchor.iters[roles.col].extent != layout.cols
    pack = (
        producer_of(sch, block, roles.rhs)
        if is_padded
        else sch.cache_read(block, roles.rhs, "global")
    )
    pack_panels(sch, anchor.loads[roles.rhs], pack, roles, layout.lanes, layout.group)
    return pack


def _tile(
    sch: Schedule,
    anchor: Block,
    block: SBlockRV,
    epilogue: SBlockRV,
    roles: Roles,
    layout: _Layout,
    facts: Facts,
) -> LoopRV:
    inner = layout.dot.depth if layout.dot else 1
    depth = anchor.iters[roles.reduce[-1]].extent // inner
    return tile_anchor(
        sch,
        block,
        epilogue,
        roles,
        tile_space(layout.rows, layout.cols // layout.lanes, depth, layout.lanes, facts),
        facts,
        col_axis=anchor.stores[0].dim_of(roles.col),
        whole_columns=layout.near,
        inner=inner,
    )


def _pad(sch: Schedule, anchor: Block, block: SBlockRV, roles: Roles, layout: _Layout) -> bool:
    """Pads the product to `layout`; whether the row operand got a padded copy."""
    padding = [1] * len(anchor.iters)
    padding[roles.row], padding[roles.col] = layout.rows, layout.cols
    sizes = [it.extent for it in anchor.iters]
    if sizes[roles.row] == layout.rows and sizes[roles.col] == layout.cols:
        return False
    sch.pad_einsum(block, padding)
    (crop,) = sch.get_consumers(block)
    sch.compute_inline(crop)
    return sizes[roles.row] != layout.rows
