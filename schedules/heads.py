# SPDX-License-Identifier: Apache-2.0
"""Stages that go head by head: all of them for one head before the next, in the nearest caches.

Attention over a cache and RWKV's recurrence are made of stages whose first dimension is the head;
running sums and sums of segments of such whose first dimension is the row. One loop over heads has
every stage under it, so that scores or a state never leave the core.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt, prod

from tvm import tirx
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV

from kope_tvm.schedules.analysis import Analysis, Block
from kope_tvm.schedules.contraction import (
    best_first,
    choose,
    divisors,
    is_worth_threads,
    vector_lanes,
)
from kope_tvm.schedules.stages import element_bits, lane_bits, selects, start
from kope_tvm.target import Facts, TargetSpec

_LEAST_REDUCTIONS = 2
_MOST_VECTORS = 8
_MOST_ROWS = 8
_PLAIN_RANK = 2
"""A head and its columns, without rows between."""
_MOST_HEADS = 16
_MOST_STEPS = 32
"""Of a reduction, unrolled: more is slow to compile."""


def heads(func: tirx.PrimFunc, target: TargetSpec) -> list[Schedule]:
    """The design space of such a function; empty where it is none."""
    started = start(func)
    if started is None:
        return []
    sch, analysis = started
    if not _is_mine(analysis):
        return []
    return [_scheduled(sch, analysis, target.facts)]


def _is_mine(analysis: Analysis) -> bool:
    blocks = analysis.blocks
    sums = [block for block in blocks if block.is_reduction]
    if not all(len(block.stores) == 1 for block in blocks) or _is_deep(blocks[-1]):
        return False
    has_products = len(sums) >= _LEAST_REDUCTIONS and any(map(_is_contraction, sums))
    if not has_products and not any(map(_is_choice, sums)):
        return False
    made = {block.stores[0].buffer for block in blocks}
    extent = blocks[0].iters[0].extent if blocks[0].iters else 0
    outputs = [block for block in blocks if analysis.is_output(block)]
    return outputs == [blocks[-1]] and all(_goes_by_head(b, made, extent) for b in blocks)


def _is_contraction(block: Block) -> bool:
    """Whether two operands meet; a softmax or a norm has rules of its own."""
    return len({load.buffer for load in block.loads}) > 1


def _is_choice(block: Block) -> bool:
    """Whether an element counts for some of the results only: a running sum, or a segment's."""
    return bool(selects(block))


def _goes_by_head(block: Block, made: set[str], extent: int) -> bool:
    """Whether a head of what the block stores needs that head alone of what others stored."""
    own = [access for access in (*block.loads, *block.stores) if access.buffer in made]
    return (
        _rank(block) >= _PLAIN_RANK
        and block.iters[0].kind == "S"
        and block.iters[0].extent == extent
        and all(access.indices and access.indices[0].is_iter(0) for access in own)
    )


def _rank(block: Block) -> int:
    return len(block.extents("S"))


def _scheduled(sch: Schedule, analysis: Analysis, facts: Facts) -> Schedule:
    blocks = analysis.blocks
    work = sum(prod(it.extent for it in block.iters) for block in blocks)
    # TVM takes a reduction apart only where nothing stands beside it: before it is moved.
    partial = {block.name: _partial(sch, block, facts) for block in blocks if _is_deep(block)}
    last = sch.get_sblock(blocks[-1].name)
    head = sch.get_loops(last)[0]
    if all(_rank(block) == _PLAIN_RANK for block in blocks):
        # Heads are the only rows then that can share what they load.
        tiles = divisors(blocks[0].iters[0].extent, _MOST_HEADS)
        head, _ = sch.split(head, [None, choose(sch, best_first(tiles, float))])
    if is_worth_threads(work, facts):
        sch.parallel(head)
    for block in reversed(blocks):
        rv = sch.get_sblock(block.name)
        if block is not blocks[-1]:
            sch.compute_at(rv, head, preserve_unit_loops=True)
        if block.name in partial:
            _add_up(sch, rv, partial[block.name], facts)
    for block in blocks:
        if block.name not in partial:
            _schedule_block(sch, block, facts)
    return sch


def _is_deep(block: Block) -> bool:
    """Whether the reduction is what lies in a row, and not the columns."""
    spatial = [i for i, it in enumerate(block.iters) if it.kind == "S"]
    if not block.is_reduction or len(spatial) < 2:
        return block.is_reduction
    return any(load.stride(spatial[-1]) not in (0, 1) for load in block.loads)


def _partial(sch: Schedule, block: Block, facts: Facts) -> SBlockRV:
    """A vector of partial results for every result."""
    rv = sch.get_sblock(block.name)
    deep = sch.get_loops(rv)[-1]
    lanes = max(1, facts.vlen_bits // element_bits(block))
    _, lane = sch.split(deep, [None, vector_lanes(block.iters[-1].extent, lanes)])
    partial = sch.rfactor(lane, _rank(block))
    sch.set_scope(partial, 0, "local")
    return partial


def _add_up(sch: Schedule, rv: SBlockRV, partial: SBlockRV, facts: Facts) -> None:
    """Tiles results by the innermost dimension; their vectors are summed in the tile."""
    lane, *spatial = sch.get_loops(rv)[-len(sch.get(rv).iter_vars) :]
    sch.reorder(*spatial, lane)
    inner = spatial[-1]
    size = int(sch.get(inner).extent)
    task, tile = sch.split(inner, [None, choose(sch, _tiles(size, facts))])
    sch.unroll(tile)
    sch.unroll(lane)
    sch.compute_at(partial, task, preserve_unit_loops=True)
    depth = len(sch.get_loops(rv)) - 2
    lane, *spatial, reduced = sch.get_loops(partial)[depth:]
    sch.reorder(*spatial[:-1], reduced, spatial[-1], lane)
    sch.unroll(spatial[-1])
    sch.vectorize(lane)
    sch.decompose_reduction(partial, reduced)


def _tiles(size: int, facts: Facts) -> tuple[int, ...]:
    most = max(facts.vector_registers, 8) // 4
    return best_first(divisors(size, 16), lambda t: t if t <= most else -t)


def _schedule_block(sch: Schedule, block: Block, facts: Facts) -> None:
    column = max(i for i, it in enumerate(block.iters) if it.kind == "S")
    lanes = max(1, facts.vlen_bits // lane_bits(block, column))
    rv = sch.get_sblock(block.name)
    if block.is_reduction:
        _along_columns(sch, rv, block, lanes, facts)
    else:
        _vectorize(sch, sch.get_loops(rv)[-1], lanes)


def _vectorize(sch: Schedule, loop: LoopRV, lanes: int) -> None:
    extent = int(sch.get(loop).extent)
    _, lane = sch.split(loop, [None, vector_lanes(extent, lanes)])
    sch.vectorize(lane)


def _along_columns(sch: Schedule, rv: SBlockRV, block: Block, lanes: int, facts: Facts) -> None:
    """Vectors over the last dimension: a tile of rows by columns stays in registers."""
    rank = _rank(block)
    local = sch.cache_write(rv, 0, "local")
    loops = sch.get_loops(rv)[-len(block.iters) :]
    head, column, reduced = loops[0], loops[rank - 1], loops[rank:]
    rows = loops[1 : rank - 1] or ([head] if int(sch.get(head).extent) > 1 else [])
    num_rows = int(sch.get(rows[-1]).extent) if rows else 1
    tile = _tile(block, num_rows, int(sch.get(column).extent), lanes, facts)
    task, vector, lane = sch.split(column, [None, choose(sch, tile.vectors), tile.width])
    inner = [vector]
    if rows:
        rows[-1], row = sch.split(rows[-1], [None, choose(sch, tile.rows)])
        inner = [row, vector]
    sch.reorder(*rows, task, *reduced, *inner, lane)
    for loop in inner:
        sch.unroll(loop)
    sch.vectorize(lane)
    sch.reverse_compute_at(local, task, preserve_unit_loops=True)
    _vectorize(sch, sch.get_loops(local)[-1], lanes)
    if _is_choice(block):
        reduced[-1:] = _steps_at_once(sch, reduced[-1])
    sch.decompose_reduction(rv, reduced[0])


@dataclass(frozen=True)
class _Tile:
    """Sizes of a register tile, the best guess first."""

    width: int
    vectors: tuple[int, ...]
    rows: tuple[int, ...]


def _tile(block: Block, num_rows: int, num_columns: int, lanes: int, facts: Facts) -> _Tile:
    most = max(facts.vector_registers, 8) // 2
    width = vector_lanes(num_columns, lanes)
    fits = divisors(num_columns // width, _MOST_VECTORS)
    # Whether a row counts is asked once for all of its vectors, what is added loaded for all rows.
    is_square = num_rows > 1 and _is_choice(block)
    wide = isqrt(most) if is_square else most
    vectors = best_first(fits, lambda v: v if v <= wide else -v)
    widest = vectors[0] if is_square else max(fits)
    rows = best_first(divisors(num_rows, _MOST_ROWS), lambda r: r if r * widest <= most else -r)
    return _Tile(width, vectors, rows)


def _steps_at_once(sch: Schedule, reduced: LoopRV) -> list[LoopRV]:
    """Unrolls a reduction, all of a short one: which lanes a step counts for is a constant then."""
    extent = int(sch.get(reduced).extent)
    fits = [n for n in divisors(extent, _MOST_STEPS) if n in (1, 2, 4, extent)]
    outer, inner = sch.split(reduced, [None, choose(sch, best_first(fits, float))])
    sch.unroll(inner)
    return [outer, inner]
