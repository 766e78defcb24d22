# SPDX-License-Identifier: Apache-2.0
"""Products on a GPU's ordinary units: tiles in shared memory, smaller tiles in registers."""

from __future__ import annotations

from dataclasses import dataclass

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV

from kope_tvm.schedules.grid import fused
from kope_tvm.schedules.grid_product import Normal, Product, inline_into, normalised
from kope_tvm.target import Facts

_LANES = 4
"""Of float32 in one load."""


@dataclass(frozen=True)
class Tile:
    """Rows and columns of a block of threads and of one thread, and the depth of a step."""

    rows: int
    cols: int
    depth: int
    own_rows: int
    own_cols: int

    @property
    def threads(self) -> int:
        return self.rows * self.cols // (self.own_rows * self.own_cols)


_DEEP = 256
"""Added up, from which reading operands takes longer than writing results (seen on an H200)."""
_LOAD_WORK = 24
"""Multiply-adds in the time of bringing one element to shared memory and from there."""
TILES = (
    Tile(128, 128, 8, 8, 8),
    Tile(128, 64, 16, 8, 8),
    Tile(128, 64, 16, 8, 4),
    Tile(64, 128, 16, 4, 8),
    Tile(64, 64, 16, 8, 4),
    Tile(64, 64, 16, 4, 4),
    Tile(32, 64, 16, 4, 4),
    Tile(32, 32, 32, 4, 2),
    Tile(16, 64, 32, 2, 4),
)
"""Widest first: the wider, the fewer loads a multiplication."""


def best_tiles(product: Product, facts: Facts) -> list[Tile]:
    """By the time that the multiprocessor with most tiles takes, a small tile's loads counted."""
    batch, rows, cols, _ = product.sizes

    def secs(tile: Tile) -> float:
        tiles = batch * -(-rows // tile.rows) * -(-cols // tile.cols)
        waves = -(-tiles // facts.num_cores)
        return waves * (tile.rows * tile.cols + _LOAD_WORK * (tile.rows + tile.cols))

    return sorted(TILES, key=secs)


def simt(product: Product, tile: Tile, *, pipelined: bool) -> Schedule:
    """One tile a block; the next step's loads are under way during the present step."""
    normal = normalised(product, (tile.rows, tile.cols, tile.depth))
    return _Simt(product, normal, tile, pipelined).run()


class _Simt:
    def __init__(self, product: Product, normal: Normal, tile: Tile, pipelined: bool) -> None:
        self.product = product
        self.sch = normal.sch
        self.block = normal.block
        self.tile = tile
        self.pipelined = pipelined

    def run(self) -> Schedule:
        sch, tile = self.sch, self.tile
        batch, row, col, deep = sch.get_loops(self.block)
        rows, row = sch.split(row, [None, tile.rows])
        cols, col = sch.split(col, [None, tile.cols])
        step, inner = sch.split(deep, [None, tile.depth])
        sch.reorder(batch, rows, cols, row, col, step, inner)
        sch.bind(batch, "blockIdx.y")
        grid = sch.fuse(rows, cols)
        sch.bind(grid, "blockIdx.x")
        own = self._spread(row, col)
        sch.reorder(step, inner, *own)
        shared = [self._share(operand, step) for operand in (0, 1)]
        for operand in (0, 1):
            self._to_registers(operand, inner)
        for loop in (inner, *own):
            sch.unroll(loop)
        self._write(grid)
        if self.pipelined:
            for copy in shared:
                sch.annotate(copy, "tirx.manifest_shared_memory_local_stage", 1)
                sch.annotate(copy, "double_buffer_scope", 0)
            sch.annotate(step, "software_pipeline_stage", [0, 0, 0, 0, 1])
            sch.annotate(step, "software_pipeline_order", [0, 3, 1, 4, 2])
        sch.decompose_reduction(self.block, step)
        return sch

    def _share(self, operand: int, step: LoopRV) -> SBlockRV:
        """Brings a step of an operand to shared memory, depth outermost there."""
        sch, tile = self.sch, self.tile
        copy = sch.cache_read(self.block, operand, "shared")
        sch.transform_layout(copy, ("write", 0), lambda b, own, deep: (b, deep, own))
        sch.compute_at(copy, step)
        inline_into(sch, copy)
        own, deep = sch.get_loops(copy)[-2:]
        run = self.product.run(operand, _LANES)
        if run == "own":
            sch.reorder(deep, own)
        spread = sch.fuse(*((deep, own) if run == "own" else (own, deep)))
        lanes = _LANES if run else 1
        size = tile.depth * (tile.rows, tile.cols)[operand]
        while size % (lanes * tile.threads):
            lanes //= 2
        each, thread, lane = sch.split(spread, [None, tile.threads, lanes])
        sch.bind(thread, "threadIdx.x")
        sch.vectorize(lane)
        if not self.pipelined:
            sch.unroll(each)
        if run != "own":
            sch.storage_align(copy, 0, 1, 32, _LANES)
        return copy

    def _to_registers(self, operand: int, inner: LoopRV) -> None:
        sch = self.sch
        copy = sch.cache_read(self.block, operand, "local")
        sch.compute_at(copy, inner)
        width = min(_LANES, (self.tile.own_rows, self.tile.own_cols)[operand])
        loop = fused(sch, sch.get_loops(copy)[-1:])
        group, lane = sch.split(loop, [None, width])
        sch.unroll(group)
        sch.vectorize(lane)

    def _spread(self, row: LoopRV, col: LoopRV) -> tuple[LoopRV, LoopRV, LoopRV, LoopRV]:
        """Gives each thread its part of a tile; the loops over that.

        It comes in groups as far apart as the groups of all threads are wide: a warp then reads
        shared memory in one go.
        """
        sch, tile = self.sch, self.tile
        rows = sch.split(row, list(groups(tile.rows, tile.own_rows)))
        cols = sch.split(col, list(groups(tile.cols, tile.own_cols)))
        own = (rows[0], rows[2], cols[0], cols[2])
        sch.bind(self._threads(rows[1], cols[1], own), "threadIdx.x")
        return own

    def _threads(self, row: LoopRV, col: LoopRV, own: tuple[LoopRV, ...]) -> LoopRV:
        """Threads over a tile as one loop, around the loops over what each has of it.

        Where much is added up a warp has four rows by eight columns, and its neighbours are two
        rows of one column: sixteen bytes a thread are read from shared memory for half a warp at
        once where every two threads read the same (the order of Gray's `maxas` and of CUTLASS).
        Else results are the most of the work, and half a warp writes them side by side.
        """
        sch = self.sch
        sizes = [int(sch.get(loop).extent) for loop in (row, col)]
        if self.product.sizes[3] < _DEEP or sizes[0] % 4 or sizes[1] % 8:
            sch.reorder(row, col, *own)
            return sch.fuse(row, col)
        rows, row, neighbour = sch.split(row, [None, 2, 2])
        cols, col = sch.split(col, [None, 8])
        order = [rows, cols, row, col, neighbour]
        sch.reorder(*order, *own)
        return sch.fuse(*order)

    def _write(self, grid: LoopRV) -> None:
        """Computes what follows, element by element, where the sums are."""
        sch = self.sch
        write = sch.cache_write(self.block, 0, "local")
        sch.reverse_compute_at(write, grid)
        *outer, lane = self._spread(*sch.get_loops(write)[-2:])
        while sch.get_consumers(write):
            # not before: reverse_compute_at drops the bounds of what is padded (seen on TVM 0.27)
            sch.reverse_compute_inline(sch.get_consumers(write)[0])
        for loop in outer:
            sch.unroll(loop)
        sch.vectorize(lane)


def groups(size: int, own: int) -> tuple[int, int, int]:
    """Groups a thread, threads, neighbours a group."""
    width = min(own, _LANES)
    return own // width, size // own, width
