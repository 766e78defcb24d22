# SPDX-License-Identifier: Apache-2.0
"""Windows on a GPU (pooling, depthwise convolution, stencils): a thread a few results."""

from __future__ import annotations

from math import prod

from tvm import tirx
from tvm.ir import IRModule
from tvm.s_tir import Schedule

from kope_tvm.schedules.analysis import Analysis, Block, analyse
from kope_tvm.schedules.grid import fused, sample
from kope_tvm.schedules.grid_product import find_product

_WINDOW = 128
"""Elements of the largest window: it is written out in full."""


def windows(func: tirx.PrimFunc) -> list[Schedule]:
    """One kernel: what stands before is computed where it is read, what follows where written."""
    info = analyse(func)
    anchor = info.anchor if info else None
    if info is None or anchor is None or find_product(func) is not None:
        return []
    last = info.blocks[-1]
    window = prod(anchor.extents("R"))
    if window > _WINDOW or prod(last.extents("S")) < _WINDOW or not _is_chain(info, anchor):
        return []
    sch = Schedule(IRModule({"main": func}))
    for block in info.blocks[:-1]:
        if block is not anchor:
            sch.compute_inline(sch.get_sblock(block.name))
    block = sch.get_sblock(anchor.name)
    write = sch.get_sblock(last.name) if last is not anchor else sch.cache_write(block, 0, "local")
    if last is not anchor:
        sch.set_scope(block, 0, "local")
    return [_spread(sch, block, write, last)]


def _spread(sch: Schedule, block: object, write: object, last: Block) -> Schedule:
    loop = fused(sch, sch.get_loops(write))
    width = last.iters[-1].extent
    counts = [n for n in (1, 2, 4) if width % n == 0]
    count = sample(sch, counts, counts[-1])
    threads = sample(sch, [128, 256, 512], 256)
    rest, each = sch.split(loop, [None, count])
    grid, thread = sch.split(rest, [None, threads])
    sch.bind(grid, "blockIdx.x")
    sch.bind(thread, "threadIdx.x")
    sch.compute_at(block, thread, preserve_unit_loops=True)
    inner = [loop for loop in sch.get_loops(block) if sch.get(loop).thread_binding is None]
    for loop in inner:
        sch.unroll(loop)
    sch.vectorize(each)
    return sch


def _is_chain(info: Analysis, anchor: Block) -> bool:
    """Whether all else is elementwise, and what follows the window is of its shape."""
    others = [block for block in info.blocks if block is not anchor]
    after = info.descendants(anchor)
    outputs = [block for block in info.blocks if info.is_output(block)]
    return (
        all(block.is_injective for block in others)
        and outputs == [info.blocks[-1]]
        and all(b.stores[0].shape == anchor.stores[0].shape for b in after)
    )
