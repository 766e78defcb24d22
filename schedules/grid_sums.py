# SPDX-License-Identifier: Apache-2.0
"""One reduction on a GPU whose rows are not contiguous, or that leaves one number."""

from __future__ import annotations

from math import prod

from tvm import tirx
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV

from kope_tvm.schedules.analysis import Analysis, Block
from kope_tvm.schedules.grid import fused, inlined, sample
from kope_tvm.schedules.grid_product import find_product
from kope_tvm.schedules.stages import mixes_kinds
from kope_tvm.target import Facts

_WARP = 32
_AT_ONCE = 4
"""Loads of a thread that do not wait for each other."""
_LONG = 4096
"""Elements from which one block of threads is too few."""


def sums(func: tirx.PrimFunc, facts: Facts) -> list[Schedule]:
    """Lines of results by the warp, or many blocks of threads and then one.

    A product of one row is such a sum; one of more rows is not.
    """
    product = find_product(func)
    is_wide = product is not None and product.size(product.rows) > 1
    started = None if is_wide else inlined(func, keep_dear=False)
    anchor = started[1].anchor if started else None
    if started is None or anchor is None or not _is_mine(started[1], anchor):
        return []
    sch, info = started
    after = [block for block in info.blocks if block is not anchor]
    if prod(anchor.extents("S")) == 1:
        done = _whole(sch, anchor, after, facts)
    else:
        done = _lines(sch, anchor, after)
    return [sch] if done else []


def _is_mine(info: Analysis, anchor: Block) -> bool:
    """A reduction with at most one elementwise stage after it, an element a result."""
    after = [block for block in info.blocks if block is not anchor]
    results = anchor.extents("S")
    indices = [index for load in anchor.loads for index in load.indices]
    return (
        info.blocks[0] is anchor
        and not any(mixes_kinds(anchor, index) for index in indices)
        and len(after) <= 1
        and all(b.is_injective and prod(b.extents("S")) == prod(results) for b in after)
    )


def _lines(sch: Schedule, anchor: Block, after: list[Block]) -> bool:
    """Neighbouring results to the lanes of a warp; its warps share the reduction."""
    spatial = [i for i, it in enumerate(anchor.iters) if it.kind == "S"]
    deep = [i for i, it in enumerate(anchor.iters) if it.kind == "R"]
    wide = [i for i in spatial if anchor.iters[i].extent > 1]
    load = max(anchor.loads, key=lambda load: prod(load.shape), default=None)
    if load is None or not load.is_linear or load.stride(wide[-1]) != 1:
        return False
    depth = prod(anchor.extents("R"))
    counts = [n for n in (8, 16, 32) if n <= depth] or [1]
    warps = sample(sch, counts, counts[-1])
    block = sch.get_sblock(anchor.name)
    loops = sch.get_loops(block)
    results = fused(sch, [loops[i] for i in spatial])
    grid, lane = sch.split(results, [None, _WARP])
    stretch, warp = sch.split(fused(sch, [loops[i] for i in deep]), [None, warps])
    step, once = sch.split(stretch, [None, _AT_ONCE if depth % (_AT_ONCE * counts[-1]) == 0 else 1])
    sch.reorder(grid, lane, warp, step, once)
    sch.bind(lane, "threadIdx.x")
    sch.bind(warp, "threadIdx.y")
    sch.unroll(once)
    tops = [grid]
    for other in after:
        sch.set_scope(block, 0, "shared")
        write = sch.get_sblock(other.name)
        top, lane = sch.split(fused(sch, sch.get_loops(write)), [None, _WARP])
        _, alone = sch.split(sch.add_unit_loop(write), [None, warps])
        sch.bind(lane, "threadIdx.x")
        sch.bind(alone, "threadIdx.y")
        tops.append(top)
    sch.bind(sch.merge(*tops) if len(tops) > 1 else grid, "blockIdx.x")
    return True


def _whole(sch: Schedule, anchor: Block, after: list[Block], facts: Facts) -> bool:
    """A partial result a block of threads, and another kernel that adds them up."""
    block = sch.get_sblock(anchor.name)
    loops = sch.get_loops(block)
    deep = fused(sch, loops)
    size = prod(anchor.extents("R"))
    if size < _LONG:
        return False
    most = [n for n in (1024, 512, 256, 128, 64, 32) if size % (n * 256 * _AT_ONCE) == 0]
    if not most:
        return False
    share = sample(sch, most[:3], min(most[:3], key=lambda n: abs(n - 8 * facts.num_cores)))
    for other in after:
        # TVM's rfactor trips over a neighbour that has no loop (seen on 0.27)
        sch.add_unit_loop(sch.get_sblock(other.name))
    part, _ = sch.split(deep, [share, None])
    partial = sch.rfactor(part, len(anchor.stores[0].indices))
    part, rest = sch.get_loops(partial)[-2:]
    steps, once, thread = sch.split(rest, [None, _AT_ONCE, 256])
    sch.reorder(thread, steps, once)
    sch.bind(part, "blockIdx.x")
    sch.bind(thread, "threadIdx.x")
    sch.unroll(once)
    _finish(sch, block, after)
    return True


def _finish(sch: Schedule, block: SBlockRV, after: list[Block]) -> None:
    tops = [_alone(sch, block, reduces=True)]
    for other in after:
        sch.set_scope(block, 0, "shared")
        tops.append(_alone(sch, sch.get_sblock(other.name), reduces=False))
    sch.bind(sch.merge(*tops) if len(tops) > 1 else tops[0], "blockIdx.x")


def _alone(sch: Schedule, block: SBlockRV, *, reduces: bool) -> LoopRV:
    """Gives a block one block of threads; the loop over that."""
    loops = sch.get_loops(block)
    loop = fused(sch, loops) if loops else sch.add_unit_loop(block)
    top = sch.add_unit_loop(loop)
    rest, thread = sch.split(loop, [None, 256])
    if reduces:
        sch.reorder(thread, rest)
    sch.bind(thread, "threadIdx.x")
    return top
