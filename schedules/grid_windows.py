# SPDX-License-Identifier: Apache-2.0
"""Windows on a GPU (pooling, depthwise convolution, stencils): a thread a few results.

Where a plane is wide enough its tile is brought to shared memory first, edges filled in, so that
what neighbouring results share is loaded once.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log2, prod

from tvm import tirx
from tvm.ir import IRModule
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV

from kope_tvm.schedules.analysis import Analysis, Block, analyse
from kope_tvm.schedules.grid import brought_to_shared, fused, sample
from kope_tvm.schedules.grid_product import find_product

_WINDOW = 128
"""Elements of the largest window: it is written out in full."""
_SHIFTS = 3
"""Loads of one buffer from which a function without a reduction is a stencil."""
_COLUMNS = range(24, 129)
"""Of a tile: most of a warp works, and some rows of it fit a block of threads."""
_THREADS = 256
_OWN_ROWS = 8
"""What a block has and a thread computes at best, as far as the plane divides by it."""
_RESULTS = 2048
"""Of a tile at most: with a stride of two its sources are 32 KiB."""
_TILES = 4


@dataclass(frozen=True)
class Window:
    """A chain of blocks around one, the anchor, that reads neighbours."""

    func: tirx.PrimFunc
    info: Analysis
    anchor: Block

    @property
    def last(self) -> Block:
        return self.info.blocks[-1]

    @property
    def shared(self) -> str:
        """The largest buffer that is read; neighbouring results read the same elements of it."""
        return max(self.anchor.loads, key=lambda load: prod(load.shape)).buffer

    def start(self, kept: str = "") -> tuple[Schedule, SBlockRV, SBlockRV]:
        """All inlined but what writes `kept`; the anchor, and the block that stores results."""
        sch = Schedule(IRModule({"main": self.func}))
        for block in self.info.blocks[:-1]:
            if block is not self.anchor and block.stores[0].buffer != kept:
                sch.compute_inline(sch.get_sblock(block.name))
        block = sch.get_sblock(self.anchor.name)
        if not self.anchor.is_reduction:
            return sch, block, block
        if self.last is self.anchor:
            return sch, block, sch.cache_write(block, 0, "local")
        sch.set_scope(block, 0, "local")
        return sch, block, sch.get_sblock(self.last.name)


@dataclass(frozen=True)
class Tile:
    """Threads across and along a plane's rows, and results of each below each other."""

    rows: int
    cols: int
    own_rows: int


def windows(func: tirx.PrimFunc) -> list[Schedule]:
    """One kernel: what stands before is computed where it is read, what follows where written."""
    window = find_window(func)
    if window is None:
        return []
    tiled = [_tiled(window, tile) for tile in best_tiles(window)]
    return [*tiled, *([_spread(window)] if window.anchor.is_reduction else [])]


def find_window(func: tirx.PrimFunc) -> Window | None:
    """The reduction over a small window, or the stencil, that a function is; None if neither."""
    info = analyse(func)
    anchor = (info.anchor or _stencil(info)) if info else None
    if info is None or anchor is None or find_product(func) is not None:
        return None
    is_small = prod(anchor.extents("R")) <= _WINDOW <= prod(info.blocks[-1].extents("S"))
    return Window(func, info, anchor) if is_small and _is_chain(info, anchor) else None


def _stencil(info: Analysis) -> Block | None:
    """The last block where nothing is reduced and it reads one buffer in several places."""
    last = info.blocks[-1]
    buffers = [load.buffer for load in last.loads if load.is_linear]
    shifts = max((buffers.count(buffer) for buffer in buffers), default=0)
    return last if not info.reductions and shifts >= _SHIFTS else None


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


def best_tiles(window: Window) -> list[Tile]:
    """Whole tiles of the last two dimensions; none where rows are narrow."""
    *_, height, width = (1, *window.last.extents("S"))
    widths = [n for n in _COLUMNS if width % n == 0]
    if not widths:
        return []
    cols = max(widths, key=lambda n: (n == width, n % 32 == 0, n))
    shapes = [
        Tile(rows, cols, own)
        for rows in range(1, 17)
        for own in range(1, 17)
        if height % (rows * own) == 0 and rows * own * cols <= _RESULTS
    ]
    return sorted(shapes, key=_distance)[:_TILES]


def _distance(tile: Tile) -> float:
    """From what keeps a multiprocessor busy."""
    threads = tile.rows * tile.cols / _THREADS
    return abs(log2(threads)) + abs(log2(tile.own_rows / _OWN_ROWS)) / 2


def _tiled(window: Window, tile: Tile) -> Schedule:
    """A block of threads a tile of a plane."""
    sch, block, write = window.start(window.shared)
    copy = brought_to_shared(sch, window.info, window.shared, block)
    *outer, row, col = sch.get_loops(write)
    down, row, own = sch.split(row, [None, tile.rows, tile.own_rows])
    across, col = sch.split(col, [None, tile.cols])
    sch.reorder(*outer, down, across, row, col, own)
    grid = fused(sch, [*outer, down, across])
    sch.bind(grid, "blockIdx.x")
    sch.bind(row, "threadIdx.y")
    sch.bind(col, "threadIdx.x")
    sch.unroll(own)
    if window.anchor.is_reduction:
        sch.compute_at(block, col, preserve_unit_loops=True)
        _write_out(sch, block)
    sch.compute_at(copy, grid)
    _bring(sch, copy, tile)
    return sch


def _bring(sch: Schedule, copy: SBlockRV, tile: Tile) -> None:
    """Neighbours to neighbouring threads, several loads of each under way."""
    loop = fused(sch, sch.get_loops(copy)[1:])
    each, row, col = sch.split(loop, [None, tile.rows, tile.cols])
    sch.bind(row, "threadIdx.y")
    sch.bind(col, "threadIdx.x")
    sch.unroll(each)


def _spread(window: Window) -> Schedule:
    """Results in memory order over threads, each reading what it needs."""
    sch, block, write = window.start()
    *outer, last = sch.get_loops(write)
    width = window.last.extents("S")[-1]
    counts = [n for n in (1, 2, 4) if width % n == 0]
    count = sample(sch, counts, counts[-1])
    threads = sample(sch, [128, 256, 512], 256)
    last, each = sch.split(last, [None, count])
    grid, thread = sch.split(fused(sch, [*outer, last]), [None, threads])
    sch.bind(grid, "blockIdx.x")
    sch.bind(thread, "threadIdx.x")
    sch.compute_at(block, thread, preserve_unit_loops=True)
    _write_out(sch, block)
    sch.vectorize(each)
    return sch


def _write_out(sch: Schedule, block: SBlockRV) -> None:
    for loop in sch.get_loops(block):
        if sch.get(loop).thread_binding is None:
            sch.unroll(loop)
