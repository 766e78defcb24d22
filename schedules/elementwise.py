# SPDX-License-Identifier: Apache-2.0
"""Chains of elementwise, broadcast and layout operations as one loop nest."""

from __future__ import annotations

from math import prod
from typing import Any

import tvm
from tvm import tirx

from kope_tvm.schedules.analysis import Access, Block
from kope_tvm.schedules.contraction import HINT
from kope_tvm.schedules.rows import GRAIN_VECTORS, lanes_for, sample
from kope_tvm.schedules.stages import element_bits, is_dear, lane_bits, start
from kope_tvm.target import Facts, TargetSpec


def nests(func: tirx.PrimFunc, target: TargetSpec) -> list[tvm.s_tir.Schedule]:
    """One nest an output: the contiguous dimensions fused and vectorized, the others parallel."""
    started = start(func)
    if started is None:
        return []
    sch, analysis = started
    if not all(_is_mine(block) for block in analysis.blocks):
        return []
    for block in analysis.blocks:
        _schedule_block(sch, block, target.facts)
    return [sch]


def _is_mine(block: Block) -> bool:
    return block.is_injective and all(it.extent > 0 for it in block.iters) and bool(block.iters)


def _schedule_block(sch: tvm.s_tir.Schedule, block: Block, facts: Facts) -> None:
    across = _transposed(block)
    if across is None:
        _schedule_runs(sch, block, facts)
    else:
        _schedule_tiles(sch, block, across, facts)


def _schedule_runs(sch: tvm.s_tir.Schedule, block: Block, facts: Facts) -> None:
    loops = sch.get_loops(sch.get_sblock(block.name))
    first = _first_contiguous(block)
    inner = _fused(sch, loops[first:])
    size = prod(it.extent for it in block.iters[first:])
    bits = lane_bits(block, len(block.iters) - 1)
    lanes = lanes_for(size, bits, facts)
    fits = [n for n in (1, 2, 4, 8) if n * lanes <= size] or [1]
    vectors = sample(sch, fits, max(n for n in fits if n <= (1 if is_dear(block) else 4)))
    rest, count, lane = sch.split(inner, [None, vectors, lanes])
    for loop in (rest, count, lane):
        sch.annotate(loop, HINT, True)
    if _is_worth_threads(block, bits, facts):
        # TVM deals out a parallel loop in one piece a thread, so its length costs nothing.
        is_long = prod(it.extent for it in block.iters[:first]) >= facts.num_cores
        sch.parallel(_fused(sch, loops[:first]) if is_long else rest)
    sch.vectorize(lane)
    sch.unroll(count)


def _schedule_tiles(sch: tvm.s_tir.Schedule, block: Block, across: int, facts: Facts) -> None:
    """A transpose: tiles whose source lines stay in cache until all of their elements are read."""
    loops = sch.get_loops(sch.get_sblock(block.name))
    bits = element_bits(block)
    lanes = lanes_for(block.iters[-1].extent, bits, facts)
    heights = [n for n in (8, 16, 32, 64) if n <= block.iters[across].extent] or [1]
    height = sample(sch, heights, max(n for n in heights if n <= 32))
    rows, row = sch.split(loops[across], [None, height])
    runs, lane = sch.split(loops[-1], [None, lanes])
    others = [loop for i, loop in enumerate(loops[:-1]) if i != across]
    sch.reorder(*others, rows, runs, row, lane)
    for loop in (rows, runs, row, lane):
        sch.annotate(loop, HINT, True)
    if _is_worth_threads(block, bits, facts):
        count = prod(it.extent for i, it in enumerate(block.iters[:-1]) if i != across)
        sch.parallel(_fused(sch, others) if count >= facts.num_cores else rows)
    sch.vectorize(lane)


def _fused(sch: tvm.s_tir.Schedule, loops: list[Any]) -> Any:
    return sch.fuse(*loops) if len(loops) > 1 else loops[0]


def _transposed(block: Block) -> int | None:
    """The iterator along which a load is contiguous and the store is not, if there is one."""
    last = len(block.iters) - 1
    for load in block.loads:
        for at in range(last):
            if block.iters[at].extent >= 8 and load.stride(at) == 1 and load.stride(last) > 1:
                return at
    return None


def _is_worth_threads(block: Block, bits: int, facts: Facts) -> bool:
    elements = prod(it.extent for it in block.iters) * (8 if is_dear(block) else 1)
    return facts.num_cores > 1 and elements * bits // facts.vlen_bits >= GRAIN_VECTORS


def _first_contiguous(block: Block) -> int:
    """The outermost iterator from which on every access is a straight run or one element."""
    first = len(block.iters) - 1
    while first > 0 and all(
        _continues(access, first, block) for access in (*block.loads, *block.stores)
    ):
        first -= 1
    return first


def _continues(access: Access, at: int, block: Block) -> bool:
    """Whether the iterator before `at` goes on where the one at `at` ends."""
    if not all(index.linear for index in access.indices):
        return False
    if block.iters[at - 1].extent == 1:
        return True
    return access.stride(at - 1) == access.stride(at) * block.iters[at].extent
