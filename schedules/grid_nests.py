# SPDX-License-Identifier: Apache-2.0
"""Elementwise and layout operations on a GPU: vectors of neighbours, or tiles that turn over."""

from __future__ import annotations

from math import prod

from tvm import tirx
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV

from kope_tvm.schedules.analysis import Block
from kope_tvm.schedules.grid import fused, inlined, lanes_of, sample
from kope_tvm.target import Facts

_TILE = 32
"""Of a transpose: a warp along either side."""
_TILE_ROWS = 8
"""Threads across; each moves a few rows of the tile."""


def nests(func: tirx.PrimFunc, facts: Facts) -> list[Schedule]:
    """One kernel an output; empty where anything is no elementwise or layout operation."""
    started = inlined(func, keep_dear=False)
    if started is None:
        return []
    sch, info = started
    if not all(block.is_injective and block.iters and _is_full(block) for block in info.blocks):
        return []
    for block in info.blocks:
        across = _transposed(block)
        if across is None:
            spread(sch, sch.get_sblock(block.name), block, facts)
        else:
            _turn(sch, block, across)
    return [sch]


def spread(sch: Schedule, block: SBlockRV, found: Block, facts: Facts) -> None:
    """A block's elements in memory order over threads, each with a few vectors of neighbours."""
    loop = fused(sch, sch.get_loops(block))
    size = prod(it.extent for it in found.iters)
    accesses = (*found.loads, *found.stores)
    last = len(found.iters) - 1
    moved = [a for a in accesses if a.is_linear and (a is accesses[-1] or a.stride(last) == 1)]
    lanes = lanes_of([a.dtype for a in moved], [found.iters[last].extent])
    threads = sample(sch, [128, 256, 512], 256)
    # enough blocks for every multiprocessor to have several, before a thread gets more work
    room = size // (lanes * 256 * facts.num_cores * 8)
    counts = [n for n in (1, 2, 4, 8) if n <= max(1, room)]
    count = sample(sch, counts, min(2, counts[-1]))
    vector, lane = sch.split(loop, [None, lanes])
    grid, each, thread = sch.split(vector, [None, count, threads])
    sch.bind(grid, "blockIdx.x")
    sch.bind(thread, "threadIdx.x")
    sch.unroll(each)
    sch.vectorize(lane)


def _turn(sch: Schedule, found: Block, across: int) -> None:
    """A transpose by way of shared memory, so that both sides are read and written in lines."""
    block = sch.get_sblock(found.name)
    load = next(load for load in found.loads if load.stride(across) == 1)
    reads = [str(region.source.name) for region in sch.get(block).reads]
    tile = sch.cache_read(block, reads.index(load.buffer), "shared")
    loops = sch.get_loops(block)
    rows, row = sch.split(loops[across], [None, _TILE])
    cols, col = sch.split(loops[-1], [None, _TILE])
    others = [loop for i, loop in enumerate(loops[:-1]) if i != across]
    sch.reorder(*others, rows, cols, row, col)
    grid = sch.fuse(*others, rows, cols)
    sch.bind(grid, "blockIdx.x")
    sch.compute_at(tile, grid)
    _warps(sch, row, col)
    row, col = sch.get_loops(tile)[-2:]
    _warps(sch, row, col)
    sch.storage_align(tile, 0, len(load.shape) - 2, _TILE, 1)


def _warps(sch: Schedule, row: LoopRV, col: LoopRV) -> None:
    each, thread = sch.split(row, [None, _TILE_ROWS])
    sch.bind(col, "threadIdx.x")
    sch.bind(thread, "threadIdx.y")
    sch.unroll(each)


def _is_full(block: Block) -> bool:
    return all(it.extent > 0 for it in block.iters)


def _transposed(block: Block) -> int | None:
    """The iterator along which the only load of that kind is contiguous, and the store is not."""
    last = len(block.iters) - 1
    found = []
    for load in block.loads:
        if not load.is_linear or not all(len(index.iters) == 1 for index in load.indices):
            continue
        at = next((i for i in range(last) if load.stride(i) == 1), None)
        if at is not None and load.stride(last) > 1 and load.indices[-1].is_iter(at):
            sizes = block.iters[at].extent, block.iters[last].extent
            found.append((at, min(sizes) >= _TILE, load.buffer))
    swapped = {at for at, is_large, _ in found if is_large}
    buffers = {buffer for _, _, buffer in found}
    return swapped.pop() if len(swapped) == len(buffers) == 1 else None
