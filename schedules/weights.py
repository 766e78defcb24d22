# SPDX-License-Identifier: Apache-2.0
"""Products of a few rows with 4-bit weights in blocks of 32 along the reduction.

The bytes of a column are contiguous along the reduction, so that vectors lie there: a block is one
vector of bytes, unpacked once for several rows, summed in the lanes and added up at the end.
"""

from __future__ import annotations

from math import prod

from tvm import IRModule, tirx
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV

from kope_tvm.schedule_error import TVM_ERRORS
from kope_tvm.schedules.analysis import Analysis, Block, analyse
from kope_tvm.schedules.contraction import best_first, choose, divisors, is_worth_threads
from kope_tvm.schedules.nibbles import BLOCK, LANES, NAMES
from kope_tvm.schedules.operands import fuse_epilogue, is_multiply_add, settle_producers
from kope_tvm.schedules.sums import lane_sum
from kope_tvm.target import Facts, TargetSpec

_MOST_ROWS = 8
"""Beyond so many, unpacking the weights once beforehand costs less than it saves."""
_MOST_COLUMNS = 16
_ACCUMULATORS = 4
"""Columns times rows of a tile: so many hide the latency of an addition."""

_STEPS = (1, 2, 4)
"""Blocks of one column at a time: more ask for bytes early, and need registers."""


def packed_products(func: tirx.PrimFunc, target: TargetSpec) -> list[Schedule]:
    """The design space of a product with 4-bit weights; empty where it is none."""
    info = analyse(func)
    anchor = info.anchor if info else None
    if info is None or anchor is None or not _is_mine(info, anchor):
        return []
    try:
        sch = _built(func, info, anchor, target.facts)
    except TVM_ERRORS:  # Unpacked in another way than the intrinsic describes.
        return []
    return [sch] if sch is not None else []


def _is_mine(info: Analysis, anchor: Block) -> bool:
    if not is_multiply_add(anchor) or [it.kind for it in anchor.iters] != list("SSR"):
        return False
    rows, _, depth = (it.extent for it in anchor.iters)
    data, weights = anchor.loads
    unpack = info.writer(weights.buffer)
    plain = all(index.is_iter(i) for index, i in zip(data.indices, (0, 2), strict=False))
    return (
        (rows <= _MOST_ROWS and depth % BLOCK == 0 and plain and len(data.indices) == 2)
        and data.dtype == weights.dtype == "float32"
        and unpack is not None
        and [load.dtype for load in unpack.loads] == ["uint8", "float32"]
        and unpack.loads[0].shape[-1] == LANES
    )


def _built(func: tirx.PrimFunc, info: Analysis, anchor: Block, facts: Facts) -> Schedule | None:
    sch = Schedule(IRModule({"main": func}))
    epilogue = fuse_epilogue(sch, info, anchor, LANES, facts)
    if epilogue is None or settle_producers(sch, info, anchor, set()) is None:
        return None
    block = sch.get_sblock(anchor.name)
    partial = _partial(sch, block)
    rows, cols, _ = (it.extent for it in anchor.iters)
    tiles = [n for n in divisors(cols, _MOST_COLUMNS) if n * rows <= _MOST_COLUMNS] or [1]
    best = best_first(tiles, lambda n: n if n * rows <= _ACCUMULATORS else -n)
    row, col, _ = sch.get_loops(block)
    task, tile = sch.split(col, [None, choose(sch, best)])
    sch.reorder(task, row, tile)
    if is_worth_threads(prod(it.extent for it in anchor.iters), facts):
        sch.parallel(task)
    sch.reverse_compute_at(epilogue, task, preserve_unit_loops=True)
    _tile_partial(sch, partial, task)
    _tile_sum(sch, block)
    for loop in sch.get_loops(epilogue)[1:]:
        sch.unroll(loop)
    return sch


def _partial(sch: Schedule, block: SBlockRV) -> SBlockRV:
    """Sums in lanes, and the floats sorted by the half of a byte that they meet."""
    depth = sch.get_loops(block)[-1]
    _, lane, _ = sch.split(depth, [None, LANES, 2])
    partial = sch.rfactor(lane, 2)
    sch.set_scope(partial, 0, "local")
    data = sch.cache_read(partial, 0, "global")
    sch.transform_layout(data, ("write", 0), lambda i, k: [i, k // BLOCK, k % 2, k % BLOCK // 2])
    return partial


def _tile_partial(sch: Schedule, partial: SBlockRV, task: LoopRV) -> None:
    sch.compute_at(partial, task, preserve_unit_loops=True)
    lane, row, col, depth, half = sch.get_loops(partial)[1:]
    deep = int(sch.get(depth).extent)
    steps = choose(sch, [n for n in _STEPS if deep % n == 0])
    depth, step = sch.split(depth, [None, steps])
    sch.reorder(depth, step, col, row, lane, half)
    sch.unroll(step)
    sch.unroll(col)
    sch.unroll(row)
    init = sch.decompose_reduction(partial, depth)
    *outer, lanes = sch.get_loops(init)[1:]
    for loop in outer:
        sch.unroll(loop)
    sch.vectorize(lanes)
    sch.tensorize(lane, NAMES[str(sch.get(lane).extent.ty)])


def _tile_sum(sch: Schedule, block: SBlockRV) -> None:
    _, row, col, lanes = sch.get_loops(block)
    sch.unroll(row)
    sch.unroll(col)
    sch.decompose_reduction(block, lanes)
    sch.tensorize(lanes, lane_sum(LANES))
