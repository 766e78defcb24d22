# SPDX-License-Identifier: Apache-2.0
"""Attention in parts on a GPU: the weights of some rows and one part's keys never leave a block.

Takes what `rewrite/key_parts.py` writes. One kernel goes from the keys to what a part's weights
add up (Dao et al. 2022, arXiv:2205.14135, the parts side by side as in Flash-Decoding); another
weighs the parts.
"""

from __future__ import annotations

from tvm import tirx
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV

from kope_tvm.schedules.analysis import Access, Block
from kope_tvm.schedules.attention_parts import Parts, find_parts
from kope_tvm.schedules.grid import fused, inlined, sample
from kope_tvm.schedules.grid_product import inline_into
from kope_tvm.schedules.grid_simt import groups
from kope_tvm.target import Facts

_ROW_TILES = (128, 64, 32)
_SHARED = "shared.dyn"
_WARP = 32
_WARPS = 8
_SIDE = 16
"""Threads along the rows and along the columns of a tile; a block has as many as both."""
_LANES = 4
_OWN = 4
"""Loops over what a thread has of a tile: groups and neighbours, of rows and of columns."""
_STEP = 16
"""Of what is added up, written out; some of them are brought to shared memory at once."""


def attention(func: tirx.PrimFunc, facts: Facts) -> list[Schedule]:
    """A space a tile of rows; empty where the function is none of that kind."""
    started = inlined(func, keep_dear=True)
    parts = find_parts(started[1]) if started else None
    if started is None or parts is None:
        return []
    tiles = [rows for rows in _ROW_TILES if parts.rows % rows == 0 and _fits(parts, rows, facts)]
    return [_Scheduled(started[0].copy(), parts, rows).run() for rows in tiles]


def _fits(parts: Parts, rows: int, facts: Facts) -> bool:
    """Whether threads share the tiles evenly, in vectors, and shared memory has room."""
    sides = (parts.keys, parts.columns)
    even = all(side % (_SIDE * 2) == 0 for side in sides) and parts.depth % _STEP == 0
    words = rows * (parts.keys + _LANES) + _STEP * (rows + parts.keys + 2 * _LANES)
    return even and 2 * 4 * words <= facts.block_shared_bytes


class _Scheduled:
    """One kernel of five stages, and the one after it."""

    def __init__(self, sch: Schedule, parts: Parts, rows: int) -> None:
        self.sch = sch
        self.parts = parts
        self.rows = rows
        self.weights = 0
        """Which operand of the second product they are."""

    def run(self) -> Schedule:
        sch, parts = self.sch, self.parts
        dots, maxima, exps, sums, out = (
            sch.get_sblock(each.name)
            for each in (parts.dots, parts.maxima, parts.exps, parts.sums, parts.out)
        )
        handed = sch.cache_read(maxima, self._place(maxima, parts.dots), _SHARED, [maxima])
        maximum = self._place(exps, parts.maxima)
        self.weights = self._place(out, parts.exps)
        for block, operand in ((dots, 0), (dots, 1), (out, 1 - self.weights)):
            sch.reindex(block, ("read", operand))
        sch.set_scope(dots, 0, "local")
        sch.set_scope(exps, 0, _SHARED)
        kept = sch.cache_write(maxima, 0, _SHARED, [exps])
        result = sch.cache_write(out, 0, "local")
        tops = [
            self._dots(dots),
            self._tile(handed, parts.keys, splits=True),
            self._rows(maxima, kept),
            self._exps(exps, maximum),
            self._rows(sums),
            self._out(out, result),
        ]
        sch.bind(sch.merge(*tops), "blockIdx.x")
        for block in (handed, exps):
            sch.storage_align(block, 0, -2, _WARP, _LANES)
        self._after()
        return sch

    def _place(self, reader: SBlockRV, made: Block) -> int:
        names = [str(region.source.name) for region in self.sch.get(reader).reads]
        return names.index(made.stores[0].buffer)

    def _top(self, block: SBlockRV, *, splits: bool = False) -> tuple[LoopRV, list[LoopRV]]:
        """The loop over tiles, and those within: rows first. Keys are split into parts."""
        sch = self.sch
        batch, row, part, *rest = sch.get_loops(block)
        if splits:
            part, key = sch.split(part, [None, self.parts.keys])
            rest = [key, *rest]
        tile, row = sch.split(row, [None, self.rows])
        sch.reorder(batch, tile, part, row, *rest)
        return fused(sch, [batch, tile, part]), [row, *rest]

    def _spread(self, row: LoopRV, col: LoopRV, cols: int) -> list[LoopRV]:
        """Gives each thread its part of a tile, in groups as far apart as all threads are wide."""
        sch = self.sch
        rows = sch.split(row, list(groups(self.rows, self.rows // _SIDE)))
        cols_ = sch.split(col, list(groups(cols, cols // _SIDE)))
        own = [rows[0], rows[2], cols_[0], cols_[2]]
        sch.reorder(rows[1], cols_[1], *own)
        self._bind(sch.fuse(rows[1], cols_[1]))
        return own

    def _bind(self, loop: LoopRV) -> tuple[LoopRV, LoopRV]:
        warp, lane = self.sch.split(loop, [None, _WARP])
        self.sch.bind(warp, "threadIdx.y")
        self.sch.bind(lane, "threadIdx.x")
        return warp, lane

    def _tile(self, block: SBlockRV, cols: int, *, splits: bool = False) -> LoopRV:
        """An elementwise stage, thread by thread what the products gave it."""
        top, (row, col) = self._top(block, splits=splits)
        self._elementwise(row, col, cols)
        return top

    def _exps(self, block: SBlockRV, maximum: int) -> LoopRV:
        """A thread has its rows' maxima in registers: shared memory is what the results go to."""
        sch = self.sch
        copy = sch.cache_read(block, maximum, "local", [block])
        top = self._tile(block, self.parts.keys)
        thread = sch.get_loops(block)[-_OWN - 1]
        sch.compute_at(copy, thread)
        self._unroll(sch.get_loops(copy)[-1:])
        return top

    def _elementwise(self, row: LoopRV, col: LoopRV, cols: int) -> None:
        *outer, lane = self._spread(row, col, cols)
        self._unroll(outer)
        self.sch.vectorize(lane)

    def _dots(self, block: SBlockRV) -> LoopRV:
        sch = self.sch
        top, (row, key, deep) = self._top(block, splits=True)
        step, once, inner = self._steps(deep, self.parts.depth, 1)
        own = self._spread(row, key, self.parts.keys)
        sch.reorder(step, once, inner, *own)
        for operand, load in enumerate(self.parts.dots.loads):
            side, size = (1, self.rows) if 1 in load.iters else (2, self.parts.keys)
            copy = self._share(block, operand, step, size, is_line=_is_line(load, side))
            sch.storage_align(copy, 0, 1, _WARP, _LANES)
            self._to_registers(block, operand, inner)
        self._unroll([inner, *own])
        return top

    def _out(self, block: SBlockRV, result: SBlockRV) -> LoopRV:
        sch = self.sch
        top, (row, col, key) = self._top(block)
        step, once, inner = self._steps(key, self.parts.keys, 4)
        inner, lane = sch.split(inner, [None, _LANES])
        own = self._spread(row, col, self.parts.columns)
        sch.reorder(step, once, inner, lane, *own)
        values = self.parts.out.loads[1 - self.weights]
        is_line = _is_line(values, 3)
        self._share(block, 1 - self.weights, step, self.parts.columns, is_line=is_line)
        self._to_registers(block, self.weights, inner)
        self._to_registers(block, 1 - self.weights, lane)
        self._unroll([inner, lane, *own])
        sch.reverse_compute_at(result, top)
        *_, row, col = sch.get_loops(result)
        self._elementwise(row, col, self.parts.columns)
        return top

    def _steps(self, loop: LoopRV, extent: int, guess: int) -> list[LoopRV]:
        """Loads of shared memory, what is left of the loop, and what of it is written out."""
        counts = [n for n in (1, 2, 4, 8) if extent % (n * _STEP) == 0]
        count = sample(self.sch, counts, max(n for n in counts if n <= guess))
        found: list[LoopRV] = self.sch.split(loop, [None, count, _STEP])
        return found

    def _unroll(self, loops: list[LoopRV]) -> None:
        for loop in loops:
            self.sch.unroll(loop)

    def _share(
        self, block: SBlockRV, operand: int, step: LoopRV, size: int, *, is_line: bool
    ) -> SBlockRV:
        """Brings a step of an operand to shared memory, what is added up outermost there.

        `is_line` where it is so in device memory too: neighbours to neighbouring threads.
        """
        sch = self.sch
        copy = sch.cache_read(block, operand, _SHARED, [block])
        sch.transform_layout(copy, ("write", 0), lambda *at: (*at[:-2], at[-1], at[-2]))
        sch.compute_at(copy, step)
        inline_into(sch, copy)
        own, deep = sch.get_loops(copy)[-2:]
        order = [deep, own] if is_line else [own, deep]
        sch.reorder(*order)
        loop = fused(sch, order)
        lanes = _LANES
        while (size * _STEP) % (lanes * _WARP * _WARPS):
            lanes //= 2
        each, thread, lane = sch.split(loop, [None, _WARP * _WARPS, lanes])
        self._bind(thread)
        sch.unroll(each)
        sch.vectorize(lane)
        return copy

    def _to_registers(self, block: SBlockRV, operand: int, loop: LoopRV) -> None:
        sch = self.sch
        copy = sch.cache_read(block, operand, "local", [block])
        sch.compute_at(copy, loop)
        *_, row, col = sch.get_loops(copy)
        group, lane = sch.split(col, [None, _LANES])
        self._unroll([row, group])
        sch.vectorize(lane)

    def _rows(self, block: SBlockRV, kept: SBlockRV | None = None) -> LoopRV:
        """A reduction of a tile's rows, each by a warp; `kept` brings them to device memory."""
        sch = self.sch
        top, (row, key) = self._top(block)
        if kept is not None:
            sch.reverse_compute_at(kept, top)
            _, thread = sch.split(sch.get_loops(kept)[-1], [None, _WARP * _WARPS])
            self._bind(thread)
        each, warp = sch.split(row, [None, _WARPS])
        stretch, lane = sch.split(key, [None, _WARP])
        sch.reorder(each, warp, lane, stretch)
        sch.bind(warp, "threadIdx.y")
        sch.bind(lane, "threadIdx.x")
        return top

    def _after(self) -> None:
        """A thread a result: it weighs the parts for itself."""
        sch = self.sch
        *before, last = self.parts.after
        for block in [block for block in before if not block.is_reduction]:
            sch.compute_inline(sch.get_sblock(block.name))
        write = sch.get_sblock(last.name)
        grid, thread = sch.split(fused(sch, sch.get_loops(write)), [None, 256])
        sch.bind(grid, "blockIdx.x")
        sch.bind(thread, "threadIdx.x")
        for block in reversed([block for block in before if block.is_reduction]):
            rv = sch.get_sblock(block.name)
            sch.set_scope(rv, 0, "local")
            sch.compute_at(rv, thread, preserve_unit_loops=True)
            sch.unroll(sch.get_loops(rv)[-1])


def _is_line(load: Access, at: int) -> bool:
    """Whether neighbours along the iterator at `at` are neighbours in memory."""
    return load.is_linear and load.stride(at) == 1
