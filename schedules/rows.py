# SPDX-License-Identifier: Apache-2.0
"""Schedules stages over common rows: all stages of a tile of rows before the next tile.

Along contiguous columns a reduction keeps several vectors of partial results (rfactor) and
adds up their lanes last; along contiguous rows the lanes are rows. Tails need no masks: the
partition hint lets TVM's LoopPartition peel the first (initialising) and the last (partial)
iterations into loops of their own. compute_at would lose the predicates of an rfactor block
(seen on TVM 0.27), hence `merge`.
"""

from __future__ import annotations

from math import prod
from typing import Any

import tvm

from kope_tvm.schedules.contraction import HINT
from kope_tvm.schedules.stages import Stage, Stages
from kope_tvm.target import Facts

GRAIN_VECTORS = 8192
"""Vector operations below which waking a second thread costs more than it saves."""


def schedule_rows(sch: tvm.s_tir.Schedule, stages: Stages, facts: Facts) -> None:
    """Schedule every block of `stages`."""
    if not stages.row_extents:
        _Whole(sch, stages, facts).run()
    elif stages.lane_row < 0:
        _AlongColumns(sch, stages, facts).run()
    else:
        _AlongRows(sch, stages, facts).run()


def sample(sch: tvm.s_tir.Schedule, candidates: list[int], guess: int) -> Any:
    """Draw from `candidates`, `guess` first."""
    share = 1.0 / len(candidates)
    return sch.sample_categorical(
        candidates=candidates, probs=[share] * len(candidates), decision=candidates.index(guess)
    )


def task_counts(tiles: int, num_cores: int) -> tuple[list[int], int]:
    """How many parallel tasks `tiles` may become, and the best guess."""
    divisors = [n for n in range(1, min(tiles, 64 * num_cores) + 1) if tiles % n == 0]
    even = [n for n in divisors if n % num_cores == 0][:4]
    counts = even or sorted({divisors[-1], tiles})
    return counts, counts[0] if even else counts[-1]


def lanes_for(extent: int, lane_bits: int, facts: Facts) -> int:
    """Lanes of a vector, halved until `extent` fills one."""
    lanes = max(1, facts.vlen_bits // lane_bits)
    while lanes > max(1, extent):
        lanes //= 2
    return lanes


class _Rows:
    """What all of them share: the order of the loops, and the two shapes of a vector loop."""

    def __init__(self, sch: tvm.s_tir.Schedule, stages: Stages, facts: Facts) -> None:
        self.sch = sch
        self.stages = stages
        self.facts = facts

    @property
    def is_small(self) -> bool:
        """Not worth a second thread."""
        vectors = self.stages.work * self.stages.lane_bits // self.facts.vlen_bits
        return vectors < GRAIN_VECTORS or self.facts.num_cores < 2

    def nest(self, stage: Stage) -> tuple[Any, list[Any], list[Any]]:
        """The block of `stage`, and its loops over rows and columns, outermost first."""
        block = self.sch.get_sblock(stage.block.name)
        loops = self.sch.get_loops(block)
        rows = [loops[i] for i in stage.rows]
        columns = [loops[i] for i in stage.columns]
        unit = [loops[i] for i in range(len(loops)) if i not in (*stage.rows, *stage.columns)]
        order = [*unit, *rows, *columns]
        if len(order) > 1:
            self.sch.reorder(*order)
        for part in (rows, columns):
            if unit and part:
                part[0] = self.sch.fuse(*unit, part[0])
                break
        return block, rows, columns

    def fused(self, loops: list[Any]) -> Any:
        return self.sch.fuse(*loops) if len(loops) > 1 else loops[0]

    def hint(self, *loops: Any) -> None:
        for loop in loops:
            self.sch.annotate(loop, HINT, True)

    def vectorized(self, loop: Any, vectors: Any, lanes: int) -> None:
        outer, count, lane = self.sch.split(loop, [None, vectors, lanes])
        self.sch.vectorize(lane)
        self.sch.unroll(count)
        self.hint(outer, count, lane)

    def accumulate(self, columns: Any, vectors: Any, lanes: int, axis: int) -> Any:
        """Split a reduction into partial ones, `vectors` vectors of them; answers their block."""
        sch = self.sch
        _, count, lane = sch.split(columns, [None, vectors, lanes])
        partial = sch.rfactor(sch.fuse(count, lane), axis)
        *_, outer, inner = sch.get_loops(partial)
        count, lane = sch.split(inner, [vectors, lanes])
        sch.reorder(outer, count, lane)
        sch.vectorize(lane)
        sch.unroll(count)
        self.hint(outer, count, lane)
        return partial

    def add_up(self, block: Any, vectors: Any, lanes: int, axis: int) -> list[Any]:
        """Reduce the partial results of `block` by halves; answers all blocks that do, in order."""
        sch = self.sch
        blocks, count, width = [], vectors, lanes
        while width > 1:
            _, lane = sch.split(sch.get_loops(block)[-1], [count, width])
            half = sch.rfactor(lane, axis)
            *_, outer, lane = sch.get_loops(half)
            sch.reorder(outer, lane)
            sch.vectorize(lane)
            sch.unroll(outer)
            blocks.append(half)
            count, width = 2, width // 2
        sch.unroll(sch.get_loops(block)[-1])
        return [*blocks, block]

    def sample_vectors(self, columns: int, lanes: int) -> Any:
        """How many vectors of partial results; never more than a row fills."""
        most = max(1, min(8, self.facts.vector_registers // 4))
        fits = [n for n in (1, 2, 4, 8) if n <= most and n * lanes <= columns] or [1]
        even = [n for n in fits if columns % (n * lanes) == 0 and n <= 4]
        return sample(self.sch, fits, max(even) if even else fits[min(1, len(fits) - 1)])

    def parallel(self, tiles: Any, tasks: Any) -> None:
        if not self.is_small:
            outer, _ = self.sch.split(tiles, [tasks, None])
            self.sch.parallel(outer)

    def task_counts(self, tiles: int) -> tuple[list[int], int]:
        return ([1], 1) if self.is_small else task_counts(tiles, self.facts.num_cores)


class _AlongColumns(_Rows):
    """Contiguous columns: a tile is a few whole rows, so that their scalar parts overlap."""

    def run(self) -> None:
        num_rows = prod(self.stages.row_extents)
        columns = min((prod(s.column_extents) for s in self.stages.stages if s.columns), default=1)
        lanes = lanes_for(columns, self.stages.lane_bits, self.facts)
        vectors = self.sample_vectors(columns, lanes)
        # A short row is unrolled to a few tests; a long one only fills the instruction cache.
        unroll = sample(self.sch, [1, 2, 4], 4 if columns < 32 * lanes else 1)
        # One row keeps its partial results in registers; more overlap their scalar parts.
        heights = [n for n in (1, 2, 4) if num_rows % n == 0]
        height = sample(self.sch, heights, 1)
        tasks = sample(self.sch, *self.task_counts(num_rows // heights[-1]))
        tiles: list[Any] = []
        for stage in self.stages.stages:
            self._stage(stage, (vectors, unroll, height), lanes, tiles)
        self.parallel(self.sch.merge(*tiles) if len(tiles) > 1 else tiles[0], tasks)

    def _stage(
        self, stage: Stage, sampled: tuple[Any, Any, Any], lanes: int, tiles: list[Any]
    ) -> None:
        vectors, unroll, height = sampled
        block, rows, columns = self.nest(stage)
        self.fused(rows)
        blocks = [block]
        axis = len(stage.block.stores[0].indices)
        if columns and stage.block.is_reduction:
            partial = self.accumulate(self.fused(columns), vectors, lanes, axis)
            blocks = [partial, *self.add_up(block, vectors, lanes, axis)]
        elif columns:
            self.vectorized(self.fused(columns), unroll, lanes)
        for each in blocks:
            tile, _ = self.sch.split(self.sch.get_loops(each)[0], [None, height])
            tiles.append(tile)


class _AlongRows(_Rows):
    """Contiguous rows: the lanes are rows, and a reduction needs no partial results."""

    def run(self) -> None:
        sch, stages = self.sch, self.stages
        extent = stages.row_extents[stages.lane_row]
        lanes = lanes_for(extent, stages.lane_bits, self.facts)
        widths = self._widths(extent, lanes)
        vectors = sample(sch, widths, max(n for n in widths if n <= 4))
        others = prod(stages.row_extents) // extent
        has_tail = extent % (widths[-1] * lanes) != 0
        tiles = others if has_tail else others * (extent // (widths[-1] * lanes))
        tasks = sample(sch, *self.task_counts(tiles))
        nests = [self._stage(stage, vectors, lanes) for stage in stages.stages]
        merged = sch.merge(*nests) if len(nests) > 1 else nests[0]
        self._parallel(merged, tasks, others, has_tail)

    def _widths(self, extent: int, lanes: int) -> list[int]:
        """Vectors a tile: powers of two that leave no tail where there are any."""
        most = max(1, self.facts.vector_registers // 2)
        fits = [n for n in (1, 2, 4, 8, 16) if n <= most and n * lanes <= extent]
        return [n for n in fits if extent % (n * lanes) == 0] or fits or [1]

    def _stage(self, stage: Stage, vectors: Any, lanes: int) -> Any:
        sch = self.sch
        _, rows, columns = self.nest(stage)
        lane_row = rows.pop(self.stages.lane_row)
        outer, count, lane = sch.split(lane_row, [None, vectors, lanes])
        sch.reorder(*rows, outer, *columns, count, lane)
        if len(rows) > 1:
            sch.fuse(*rows)
        if columns:
            column = self.fused(columns)
            if stage.block.is_reduction:
                self.hint(column)
        sch.vectorize(lane)
        sch.unroll(count)
        self.hint(count, lane)
        return outer

    def _parallel(self, merged: Any, tasks: Any, others: int, has_tail: bool) -> None:
        sch = self.sch
        above = sch.get_loops(sch.get_sblock(self.stages.stages[-1].block.name))[0]
        if not has_tail:
            self.parallel(sch.fuse(above, merged) if others > 1 else merged, tasks)
            return
        self.hint(merged)
        if others > 1:
            self.parallel(above, tasks)


class _Whole(_Rows):
    """No rows: the result is one element, or depends on one; tasks are parts of the columns."""

    def run(self) -> None:
        for stage in self.stages.stages:
            if stage.columns:
                self._stage(stage, prod(stage.column_extents))

    def _stage(self, stage: Stage, size: int) -> None:
        sch = self.sch
        _, _, columns = self.nest(stage)
        counts, guess = self.task_counts(size)
        tasks = sample(sch, counts, guess)
        share = size // counts[-1]
        lanes = lanes_for(share, self.stages.lane_bits, self.facts)
        vectors = self.sample_vectors(share, lanes)
        task, rest = sch.split(self.fused(columns), [tasks, None])
        if not stage.block.is_reduction:
            self.vectorized(rest, vectors, lanes)
            if not self.is_small:
                sch.parallel(task)
            return
        axis = len(stage.block.stores[0].indices)
        part = sch.rfactor(task, axis)
        partial = self.accumulate(sch.get_loops(part)[-1], vectors, lanes, axis + 1)
        nests = [partial, *self.add_up(part, vectors, lanes, axis + 1)]
        merged = sch.merge(*(sch.get_loops(nest)[0] for nest in nests))
        if not self.is_small:
            sch.parallel(merged)
