# SPDX-License-Identifier: Apache-2.0
"""Running sums on a GPU: a row in shared memory, a stretch of it in the registers of a thread.

The function is one of three stages: sums within stretches, sums of the stretches before, and both
added up (`operators/scan.py`). Stretches lie a few elements further apart in shared memory than
they are long, so that threads side by side read from banks of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tvm import tirx
from tvm.ir import IRModule
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV

from kope_tvm.schedules.analysis import Analysis, Block, analyse
from kope_tvm.schedules.grid import FEW_THREADS, brought_to_shared, fused, lanes_of, sample
from kope_tvm.schedules.stages import element_bits, selects
from kope_tvm.target import Facts

_STAGES = 3
_LONGEST = 64
"""Elements of a stretch: they are written out, each with all before it."""
_WIDEST = 256
"""Threads a row."""
_AT_ONCE = 8
"""Stretches whose sums a thread loads before it adds them."""
_SHARED_BYTES = 48 * 1024


@dataclass(frozen=True)
class Scan:
    """The stages of a function; what brings a row may be a padding."""

    func: tirx.PrimFunc
    info: Analysis
    within: Block
    before: Block

    @property
    def source(self) -> str:
        """The buffer that is summed."""
        return self.within.loads[0].buffer

    @property
    def num_rows(self) -> int:
        return prod(self.within.extents("S")[:-2])

    @property
    def num_stretches(self) -> int:
        return self.within.extents("S")[-2]

    @property
    def length(self) -> int:
        """Of a stretch."""
        return self.within.extents("S")[-1]

    @property
    def threads(self) -> int:
        """A row; a power of two."""
        return min(_WIDEST, 1 << (self.num_stretches - 1).bit_length())

    @property
    def lanes(self) -> int:
        """Of a vector that stays in one stretch, of what is read and what is written."""
        last = self.info.blocks[-1]
        dtypes = [access.dtype for access in (*self.within.loads, *last.stores)]
        return lanes_of(dtypes, [self.length, last.iters[-1].extent])

    @property
    def row_bytes(self) -> int:
        """Of shared memory: the row as read and as summed within stretches, and their sums."""
        stretches = 2 * self.num_stretches * (self.length + self.lanes)
        return (stretches + self.num_stretches) * element_bits(self.within) // 8


def scans(func: tirx.PrimFunc, facts: Facts) -> list[Schedule]:
    """Some rows a block of threads; empty where the function is none, or its rows are too long."""
    scan = find_scan(func)
    rows = _rows(scan, facts) if scan else []
    return [_Scheduled(scan, rows).run()] if scan and rows else []


def find_scan(func: tirx.PrimFunc) -> Scan | None:
    """The stages of running sums; None where the function is made otherwise."""
    info = analyse(func)
    if info is None or not _STAGES <= len(info.blocks) <= _STAGES + 1:
        return None
    *padding, within, before, last = info.blocks
    if not all(block.is_injective for block in (*padding, last)) or info.producers(last) != (
        within,
        before,
    ):
        return None
    is_mine = _is_of_stretches(within) and _is_of_sums(before, within)
    has_padding = all(info.consumers(block) == (within,) for block in padding)
    return Scan(func, info, within, before) if is_mine and has_padding else None


def _is_of_stretches(block: Block) -> bool:
    """Whether each result is chosen from the stretch of the row that it is in."""
    *rows, stretch, _, step = range(len(block.iters))
    if not _is_choice(block) or len(block.loads) != 1 or len(rows) < 1:
        return False
    length, index = block.iters[step].extent, block.loads[0].indices[-1]
    is_even = block.iters[step - 1].extent == length <= _LONGEST
    return is_even and index.iters == (stretch, step) and index.coefs[stretch] == length


def _is_of_sums(block: Block, within: Block) -> bool:
    """Whether each result is chosen from the stretches of its row."""
    same = block.extents("S") == within.extents("S")[:-1]
    return _is_choice(block) and same and block.reads == within.writes


def _is_choice(block: Block) -> bool:
    kinds = "".join(it.kind for it in block.iters)
    return block.is_reduction and kinds == "S" * (len(kinds) - 1) + "R" and bool(selects(block))


def _rows(scan: Scan, facts: Facts) -> list[int]:
    """Rows a block, the guess first."""
    most = min(facts.block_threads // scan.threads, _SHARED_BYTES // scan.row_bytes)
    fits = [n for n in (1, 2, 4, 8, 16, 32) if n <= most and scan.num_rows % n == 0]
    return sorted(fits, key=lambda n: abs(n * scan.threads - FEW_THREADS))


class _Scheduled:
    def __init__(self, scan: Scan, rows: list[int]) -> None:
        self.scan = scan
        self.sch = Schedule(IRModule({"main": scan.func}))
        self.rows = sample(self.sch, sorted(rows), rows[0])

    def run(self) -> Schedule:
        sch, scan = self.sch, self.scan
        within, before = sch.get_sblock(scan.within.name), sch.get_sblock(scan.before.name)
        last = sch.get_sblock(scan.info.blocks[-1].name)
        brought = self._brought(within)
        kept = sch.cache_read(within, 0, "local")
        sums = [self._shared(block) for block in (within, before)]
        sch.storage_align(sums[0], 0, -2, scan.length, scan.lanes)
        grid = self._store(last)
        self._add_stretches(grid, before, sums[1])
        self._add_elements(grid, within, sums[0], kept)
        self._bring(grid, brought)
        return sch

    def _brought(self, within: SBlockRV) -> SBlockRV:
        """The block that brings rows to shared memory, in stretches."""
        sch, scan, length = self.sch, self.scan, self.scan.length
        copy = brought_to_shared(sch, scan.info, scan.source, within)

        def stretched(*at: tirx.Var) -> list[tirx.PrimExpr]:
            return [*at[:-1], at[-1] // length, at[-1] % length]

        dims = len(scan.within.loads[0].indices)
        index_map = tirx.IndexMap.from_func(stretched, ndim=dims, index_dtype="int32")
        sch.transform_layout(copy, ("write", 0), index_map)
        sch.storage_align(copy, 0, -2, length, scan.lanes)
        return copy

    def _shared(self, block: SBlockRV) -> SBlockRV:
        """Sums in registers, then to shared memory; the block that brings them there."""
        write = self.sch.cache_write(block, 0, "local")
        self.sch.set_scope(write, 0, "shared")
        return write

    def _threads(self, loop: LoopRV, lanes: int = 1) -> tuple[LoopRV, LoopRV, LoopRV]:
        """Stretches, threads along a row, and lanes."""
        sch = self.sch
        each, thread, lane = sch.split(loop, [None, self.scan.threads, lanes])
        sch.bind(thread, "threadIdx.x")
        if lanes > 1:
            sch.vectorize(lane)
        return each, thread, lane

    def _below(self, grid: LoopRV, block: SBlockRV, num_dims: int) -> list[LoopRV]:
        """Moves a block below `grid`, a thread's second coordinate the row; the loops over that."""
        self.sch.compute_at(block, grid, preserve_unit_loops=True)
        loops: list[LoopRV] = self.sch.get_loops(block)[1:]
        self.sch.bind(fused(self.sch, loops[:-num_dims]), "threadIdx.y")
        return loops[-num_dims:]

    def _store(self, last: SBlockRV) -> LoopRV:
        """The results, in vectors along the row; the loop over blocks of threads."""
        sch = self.sch
        *rows, column = sch.get_loops(last)
        grid, row = sch.split(fused(sch, rows), [None, self.rows])
        sch.bind(grid, "blockIdx.x")
        sch.bind(row, "threadIdx.y")
        each, _, _ = self._threads(column, self.scan.lanes)
        sch.unroll(each)
        return grid

    def _add_stretches(self, grid: LoopRV, before: SBlockRV, write: SBlockRV) -> None:
        sch = self.sch
        (stretch,) = self._below(grid, write, 1)
        _, thread, _ = self._threads(stretch)
        sch.compute_at(before, thread, preserve_unit_loops=True)
        once = max(n for n in range(1, _AT_ONCE + 1) if self.scan.num_stretches % n == 0)
        _, once = sch.split(sch.get_loops(before)[-1], [None, once])
        sch.unroll(once)

    def _add_elements(
        self, grid: LoopRV, within: SBlockRV, write: SBlockRV, kept: SBlockRV
    ) -> None:
        """All steps of all results are written out: which of them count is constant then."""
        sch = self.sch
        stretch, element = self._below(grid, write, 2)
        _, thread, _ = self._threads(stretch)
        self._vectors(element)
        for block in (within, kept):
            sch.compute_at(block, thread, preserve_unit_loops=True)
        for loop in sch.get_loops(within)[-2:]:
            sch.unroll(loop)
        self._vectors(sch.get_loops(kept)[-1])

    def _vectors(self, loop: LoopRV) -> None:
        each, lane = self.sch.split(loop, [None, self.scan.lanes])
        self.sch.unroll(each)
        self.sch.vectorize(lane)

    def _bring(self, grid: LoopRV, copy: SBlockRV) -> None:
        is_plain = self.scan.info.writer(self.scan.source) is None
        (column,) = self._below(grid, copy, 1)
        each, _, _ = self._threads(column, self.scan.lanes if is_plain else 1)
        self.sch.unroll(each)
