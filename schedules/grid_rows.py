# SPDX-License-Identifier: Apache-2.0
"""Stages over common rows on a GPU: a row stays in the registers of a warp or a block.

An array in registers is declared as long as the part of the row between a thread's first and
last element; as all of its indices are constants, the compiler keeps only those that are used.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from tvm import tirx
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV

from kope_tvm.schedules.analysis import Access, Analysis
from kope_tvm.schedules.grid import (
    FEW_THREADS,
    element_bytes,
    fused,
    inlined,
    lanes_of,
    merged,
    only_load,
    sample,
)
from kope_tvm.schedules.stages import Stage, Stages, find_stages
from kope_tvm.target import Facts

_ROW_REGISTERS = 64
"""Of a thread, for its part of one row."""
_GUESSED_REGISTERS = 16
_UNROLLED = 16


@dataclass(frozen=True)
class _Shape:
    """Threads along a row, rows a block, and whether the row is kept."""

    threads: tuple[int, ...]
    guess: int
    rows: tuple[int, ...]
    lanes: int
    kept: bool
    has_tail: bool
    """Whether some of the thread counts leave one."""


def along_columns(func: tirx.PrimFunc, facts: Facts) -> list[Schedule]:
    """Spaces for rows of contiguous columns: a warp a row, a block a row, kept or read again."""
    found = [_space(func, facts, kept, warp) for kept in (True, False) for warp in (True, False)]
    spaces = [sch for sch in found if sch is not None]
    return spaces[:3]


def _space(func: tirx.PrimFunc, facts: Facts, kept: bool, warp: bool) -> Schedule | None:
    started = inlined(func, keep_dear=kept)
    stages = find_stages(started[1]) if started else None
    if started is None or stages is None or not stages.row_extents or stages.lane_row >= 0:
        return None
    shape = _shape(stages, facts, kept, warp)
    return _Rows(*started, stages, shape).run() if shape else None


def _shape(stages: Stages, facts: Facts, kept: bool, warp: bool) -> _Shape | None:
    wide = [stage for stage in stages.stages if stage.columns]
    columns = stages.num_columns
    if any(prod(stage.column_extents) != columns for stage in wide):
        return None
    dtypes = [access.dtype for s in wide for access in (*s.block.loads, *s.block.stores)]
    lanes = lanes_of(dtypes, [stage.column_extents[-1] for stage in wide])
    size = max(element_bytes(dtype) for dtype in dtypes)
    counts = _warp_threads(columns // lanes) if warp else _block_threads(columns // lanes)
    most = _ROW_REGISTERS * 4 // size if kept else columns
    fits = [n for n in counts if -(-columns // (n * lanes)) * lanes <= most]
    if not fits or (warp and columns * size > 64 * 1024):
        return None
    even = [n for n in fits if columns % (n * lanes) == 0] or fits
    wanted = columns * size // (4 * _GUESSED_REGISTERS)
    guess = min(even, key=lambda n: abs(n - wanted))
    rows = _rows_a_block(prod(stages.row_extents), max(fits), facts) if warp else (1,)
    has_tail = any(columns % (n * lanes) for n in even)
    return _Shape(tuple(even), guess, rows, lanes, kept, has_tail)


def _warp_threads(vectors: int) -> list[int]:
    return [min(32, 1 << max(0, vectors - 1).bit_length())]


def _block_threads(vectors: int) -> list[int]:
    return [n for n in (64, 128, 256, 512, 1024) if n <= vectors]


def _rows_a_block(rows: int, threads: int, facts: Facts) -> tuple[int, ...]:
    """The first is the guess."""
    few = max(1, FEW_THREADS // threads)
    most = max(1, facts.block_threads // threads)
    fits = [n for n in (few, 2 * few, 4 * few, few // 2) if 0 < n <= most and rows % n == 0]
    return tuple(fits) or (1,)


class _Rows:
    """Schedules the stages of one function."""

    def __init__(self, sch: Schedule, info: Analysis, stages: Stages, shape: _Shape) -> None:
        self.sch = sch
        self.info = info
        self.stages = stages
        self.shape = shape
        self.threads: Any = None
        self.rows: Any = None
        self.streamed: list[SBlockRV] = []

    def run(self) -> Schedule | None:
        """The schedule; None where a row would be kept that only one stage reads."""
        sch, shape = self.sch, self.shape
        self.threads = sample(sch, list(shape.threads), shape.guess)
        self.rows = sample(sch, list(shape.rows), shape.rows[0])
        copies = self._keep_rows() if shape.kept else []
        if shape.kept and not copies and not self._kept_stages():
            return None
        blocks = [*copies, *(b for stage in self.stages.stages for b in self._stage(stage))]
        tops = [sch.get_loops(block)[0] for block in blocks]
        sch.bind(sch.merge(*tops) if len(tops) > 1 else tops[0], "blockIdx.x")
        for block in self.streamed:
            # not before: TVM binds and merges no reduction that is in two parts
            sch.decompose_reduction(block, sch.get_loops(block)[-2])
        return sch

    def _kept_stages(self) -> list[Stage]:
        return [
            stage
            for stage in self.stages.stages
            if not stage.block.is_reduction and not self.info.is_output(stage.block)
        ]

    def _keep_rows(self) -> list[SBlockRV]:
        """Copies to registers of what several stages read of a row."""
        return [self._copy(*found) for found in self._read_again()]

    def _read_again(self) -> list[tuple[str, list[Stage], Access]]:
        found: list[tuple[str, list[Stage], Access]] = []
        for buffer in self.info.params:
            readers = [stage for stage in self.stages.stages if buffer in stage.block.reads]
            loads = [load for stage in readers if (load := only_load(stage, buffer)) is not None]
            if 1 < len(readers) == len(loads):
                found.append((buffer, readers, loads[0]))
        return found

    def _copy(self, buffer: str, readers: list[Stage], load: Access) -> SBlockRV:
        sch = self.sch
        blocks = [sch.get_sblock(stage.block.name) for stage in readers]
        reads = [str(region.source.name) for region in sch.get(blocks[0]).reads]
        copy = sch.cache_read(blocks[0], reads.index(buffer), "local", consumer_blocks=blocks)
        first = readers[0]
        loops = sch.get_loops(copy)
        at = {
            index.iters[0]: loop
            for index, loop in zip(load.indices, loops, strict=True)
            if index.iters
        }
        rows = [at[i] for i in first.rows]
        columns = [at[i] for i in first.columns]
        unit = [loop for loop in loops if all(loop is not other for other in (*rows, *columns))]
        self._nest(copy, unit, rows, columns, is_reduction=False)
        return copy

    def _stage(self, stage: Stage) -> list[SBlockRV]:
        sch, inner = self.sch, not self.info.is_output(stage.block)
        block = sch.get_sblock(stage.block.name)
        for at in range(len(stage.block.stores) if inner else 0):
            sch.set_scope(block, at, "local")
        unit, rows, columns = self._loops(stage, block)
        if stage.block.is_reduction and columns and not self.shape.kept:
            return [self._stream(stage, block, unit, rows, columns), block]
        self._nest(block, unit, rows, columns, is_reduction=stage.block.is_reduction)
        return [block]

    def _loops(
        self, stage: Stage, block: SBlockRV
    ) -> tuple[list[LoopRV], list[LoopRV], list[LoopRV]]:
        """Those of extent one, of rows and of columns.

        Several columns become one iterator: of the parts of one TVM does not see that they are
        neighbours, and keeps all of a row for each thread.
        """
        used = {*stage.rows, *stage.columns}
        unit = [i for i in range(len(stage.block.iters)) if i not in used]
        if len(stage.columns) > 1:
            line = merged(stage.block, ((*unit, *stage.rows), stage.columns))
            if stage in self._kept_stages():
                self.sch.transform_layout(block, ("write", 0), line)
            self.sch.transform_block_layout(block, line)
            row, column = self.sch.get_loops(block)
            return [], [row], [column]
        loops = self.sch.get_loops(block)
        groups = (tuple(unit), stage.rows, stage.columns)
        unit, rows, columns = ([loops[i] for i in group] for group in groups)
        return unit, rows, columns

    def _ordered(
        self, unit: list[LoopRV], rows: list[LoopRV], columns: list[LoopRV]
    ) -> tuple[LoopRV, LoopRV]:
        """The rows of a block as one loop, and the columns as another below it."""
        sch = self.sch
        order = [*unit, *rows, *columns]
        if len(order) > 1:
            sch.reorder(*order)
        row = fused(sch, [*unit, *rows])
        _, inner = sch.split(row, [None, self.rows])
        column = fused(sch, columns) if columns else None
        return inner, column

    def _nest(
        self,
        block: SBlockRV,
        unit: list[LoopRV],
        rows: list[LoopRV],
        columns: list[LoopRV],
        *,
        is_reduction: bool,
    ) -> None:
        """Threads along the row, each with a vector in every stretch."""
        sch, lanes = self.sch, self.shape.lanes if columns else 1
        row, column = self._ordered(unit, rows, columns)
        stretch, thread, lane = self._strided(
            column if columns else sch.add_unit_loop(block), lanes
        )
        sch.bind(row, "threadIdx.y")
        sch.bind(thread, "threadIdx.x")
        if not is_reduction:
            sch.vectorize(lane)
        elif self.shape.kept:
            sch.unroll(lane)
        if self.shape.kept:
            sch.unroll(stretch)

    def _strided(self, column: LoopRV, lanes: int) -> tuple[LoopRV, LoopRV, LoopRV]:
        """Stretches of the row, threads along each, and lanes: a tail is one of whole vectors."""
        sch = self.sch
        vector, lane = sch.split(column, [None, lanes])
        stretch, thread = sch.split(vector, [None, self.threads])
        sch.reorder(thread, stretch, lane)
        return stretch, thread, lane

    def _stream(
        self,
        stage: Stage,
        block: SBlockRV,
        unit: list[LoopRV],
        rows: list[LoopRV],
        columns: list[LoopRV],
    ) -> SBlockRV:
        """A reduction by thread, loading vector by vector, then by the whole block; the former."""
        sch = self.sch
        row, column = self._ordered(unit, rows, columns)
        _, thread, _ = self._strided(column, self.shape.lanes)
        partial = sch.rfactor(thread, len(stage.block.stores[0].indices))
        for at in range(len(stage.block.stores)):
            sch.set_scope(partial, at, "local")
        *_, thread = sch.get_loops(block)
        sch.bind(thread, "threadIdx.x")
        sch.bind(sch.get_loops(block)[-2], "threadIdx.y")
        *_, row, thread, stretch, lane = sch.get_loops(partial)
        sch.bind(row, "threadIdx.y")
        sch.bind(thread, "threadIdx.x")
        sch.unroll(lane)
        if self.shape.lanes > 1:
            self._load_vectors(stage, partial, stretch)
        if not self.shape.has_tail:
            self.streamed.append(partial)
        return partial

    def _load_vectors(self, stage: Stage, block: SBlockRV, stretch: LoopRV) -> None:
        sch = self.sch
        for buffer in sorted(stage.block.reads & set(self.info.params)):
            load = only_load(stage, buffer)
            if load is None:
                continue
            reads = [str(region.source.name) for region in sch.get(block).reads]
            copy = sch.cache_read(block, reads.index(buffer), "local", consumer_blocks=[block])
            sch.compute_at(copy, stretch, preserve_unit_loops=True)
            sch.vectorize(sch.get_loops(copy)[-1])
