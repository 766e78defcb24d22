# SPDX-License-Identifier: Apache-2.0
"""Depthwise NCHW convolution: a channel a task, vectors along the row, all taps unrolled.

The padded rows are written next to their use, a few rows or a whole channel at a time; for a
stride of more than one their columns are sorted by phase, so that every load is of neighbours.
Of rows staged by the tile, a tile as high as the image, no product with a padded one is left
(`known_padding`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from tvm import IRModule, tirx
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV

from kope_tvm.schedules.analysis import Analysis, Block, analyse
from kope_tvm.schedules.contraction import (
    choose,
    divisors,
    is_worth_threads,
    lanes_of,
    tile_epilogue,
    vector_lanes,
)
from kope_tvm.schedules.operands import (
    fuse_epilogue,
    is_copy,
    is_multiply_add,
    settle_producers,
)
from kope_tvm.target import Facts, TargetSpec

Stage = Callable[[Schedule, SBlockRV, LoopRV, LoopRV], None]


@dataclass(frozen=True)
class Depthwise:
    """The sizes of `out[n, c, y, x] += data[n, c, y*s + ky, x*s + kx] * weight[c, 0, ky, kx]`."""

    height: int
    width: int
    taps: tuple[int, ...]
    """Positions of the reduction iterators, those of extent one first."""
    stride: int
    """Of columns."""
    data: int
    """Position of the data among the anchor's loads."""


def depthwise_of(anchor: Block) -> Depthwise | None:
    """The depthwise convolution that `anchor` is; None where it is none."""
    kinds = [it.kind for it in anchor.iters]
    if not is_multiply_add(anchor) or kinds[:4] != list("SSSS") or set(kinds[4:]) != {"R"}:
        return None
    data = 0 if 2 in anchor.loads[0].iters else 1
    image, weight = anchor.loads[data], anchor.loads[1 - data]
    unit = tuple(i for i in range(4, len(kinds)) if anchor.iters[i].extent == 1)
    used = [tuple(i for i in ix.iters if i not in unit) for ix in image.indices]
    if len(used) != 4 or not image.is_linear or not anchor.stores[0].is_identity:
        return None
    if used[:2] != [(0,), (1,)] or used[2][:1] != (2,) or used[3][:1] != (3,):
        return None
    if 1 not in weight.iters or set(weight.iters) & {0, 2, 3} or image.shape[3] < 2:
        return None
    taps = (*unit, *(i for i in range(4, len(kinds)) if i not in unit))
    height, width = (anchor.iters[i].extent for i in (2, 3))
    return Depthwise(height, width, taps, image.indices[3].coefs[3], data)


def depthwises(func: tirx.PrimFunc, target: TargetSpec) -> list[Schedule]:
    """Design spaces of a depthwise convolution, the best guess first; empty where it is none."""
    info = analyse(func)
    anchor = info.anchor if info else None
    conv = depthwise_of(anchor) if anchor else None
    if info is None or anchor is None or conv is None:
        return []
    lanes = lanes_of(anchor.stores[0].dtype, target.facts)
    if not lanes:
        return []
    is_staged = info.writer(anchor.loads[conv.data].buffer) is not None
    stages: tuple[Stage, ...] = (_stage_rows, _stage_channel) if is_staged else (_stage_rows,)
    built = [_build(func, info, anchor, conv, lanes, target.facts, stage) for stage in stages]
    return [sch for sch in built if sch is not None]


def _build(
    func: tirx.PrimFunc,
    info: Analysis,
    anchor: Block,
    conv: Depthwise,
    lanes: int,
    facts: Facts,
    stage: Stage,
) -> Schedule | None:
    sch = Schedule(IRModule({"main": func}))
    epilogue = fuse_epilogue(sch, info, anchor, lanes, facts)
    image = anchor.loads[conv.data]
    pad = info.writer(image.buffer)
    is_padded = pad is not None and not is_copy(pad)
    stay = settle_producers(sch, info, anchor, {image.buffer} if is_padded else set())
    if epilogue is None or stay is None:
        return None
    block = sch.get_sblock(anchor.name)
    phases = conv.stride if stay and image.shape[3] % conv.stride == 0 else 1
    if phases > 1:
        sch.transform_layout(
            sch.get_sblock(stay[0].name),
            ("write", 0),
            lambda n, c, y, x: [n, c, y, x % phases, x // phases],
        )
    task, rows = _tile(sch, block, epilogue, conv, vector_lanes(conv.width, lanes), facts)
    if is_worth_threads(prod(it.extent for it in anchor.iters), facts):
        sch.parallel(task)
    if stay:
        pad = sch.get_sblock(stay[0].name)
        stage(sch, pad, task, rows)
        _sort_phases(sch, pad, phases)
    sch.decompose_reduction(block, sch.get_loops(block)[-3 - len(conv.taps)])
    return sch


def _tile(
    sch: Schedule, block: SBlockRV, epilogue: SBlockRV, conv: Depthwise, lanes: int, facts: Facts
) -> tuple[LoopRV, LoopRV]:
    """Tiles the anchor with its epilogue; the loops over channels and over tiles of rows."""
    loops = sch.get_loops(block)
    rows, vectors = divisors(conv.height, 8), divisors(conv.width // lanes, 4)
    row_first, vector_first = _first_tile(rows, vectors, max(facts.vector_registers, 8) // 2)
    row_task, row = sch.split(loops[2], [None, choose(sch, (row_first, *rows))])
    column, vector, lane = sch.split(loops[3], [None, choose(sch, (vector_first, *vectors)), lanes])
    taps = [loops[i] for i in conv.taps]
    sch.reorder(loops[0], loops[1], row_task, column, *taps, row, vector, lane)
    task = sch.fuse(loops[0], loops[1])
    for loop in (*taps, row, vector):
        sch.unroll(loop)
    sch.vectorize(lane)
    tile_epilogue(sch, epilogue, column, lanes, 3)
    return task, row_task


def _first_tile(rows: list[int], vectors: list[int], registers: int) -> tuple[int, int]:
    """The largest that leaves as many registers for taps; of two as large the wider one."""
    tiles = [(row, vector) for row in rows for vector in vectors if row * vector <= registers]
    return max(tiles, key=lambda tile: (tile[0] * tile[1], tile[1]))


def _stage_rows(sch: Schedule, pad: SBlockRV, task: LoopRV, rows: LoopRV) -> None:
    """Pads the rows of one tile, which stay in the nearest cache."""
    sch.compute_at(pad, rows, preserve_unit_loops=True)


def _stage_channel(sch: Schedule, pad: SBlockRV, task: LoopRV, rows: LoopRV) -> None:
    """Pads one channel in its task; LLVM turns the row loops into copies."""
    sch.compute_at(pad, task, preserve_unit_loops=True)
    height = sch.get_loops(pad)[-2]
    if sch.can_decompose_padding(pad, height):
        sch.decompose_padding(pad, height)


def _sort_phases(sch: Schedule, pad: SBlockRV, phases: int) -> None:
    if phases > 1:
        _, phase = sch.split(sch.get_loops(pad)[-1], [None, phases])
        sch.unroll(phase)
