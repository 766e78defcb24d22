# SPDX-License-Identifier: Apache-2.0
"""A register-tiled contraction with packed panels: what matmul and convolution rules share.

The anchor block becomes `outer x row tiles x column panels x K x (rows x vectors)` with its
accumulators in a local tile; the column operand is packed to `[column/lanes][K][column%lanes]`
and the epilogue runs in the tile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import gcd, prod

from tvm import tirx
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV

from kope_tvm.target import Facts

HINT = "pragma_loop_partition_hint"
_MAX_ROWS = 16
_SERIAL_WORK = 1 << 17
"""Multiply-adds that one core does in the microseconds which a parallel loop costs."""
_FEW = 4
_REST_GAIN = 1.25
"""How much more work a load must do for code of its own for the rest to pay."""
_DTYPE_BITS = {"float32": 32, "float64": 64, "float16": 32, "int32": 32, "int64": 64}


@dataclass(frozen=True)
class Roles:
    """What each iterator of the anchor block is, by position."""

    outer: tuple[int, ...]
    row: int
    """Broadcast operand's own iterator: one register each."""
    col: int
    """Vectorised."""
    reduce: tuple[int, ...]
    """Outermost first; the last is the one to unroll."""
    lhs: int
    """Position of the row operand among the anchor's loads."""
    rhs: int
    """Position of the column operand."""


@dataclass(frozen=True)
class Tile:
    """The legal values of each parameter, the analytic guess first."""

    lanes: int
    rows: tuple[int, ...]
    vectors: tuple[int, ...]
    row_tiles: tuple[int, ...]
    """Row tiles that share one column panel before the next."""
    panels: tuple[int, ...]
    """Column panels of one parallel task."""
    unrolls: tuple[int, ...]
    """Of the innermost reduction loop."""
    has_rest: bool = False
    """Whether the last row tile is not a whole one: TVM's LoopPartition gives it its own code."""


def lanes_of(dtype: str, facts: Facts) -> int:
    """Elements of the accumulator type in one vector; 0 where the type is not ours."""
    bits = _DTYPE_BITS.get(dtype, 0)
    return facts.vlen_bits // bits if bits else 0


def divisors(number: int, limit: int) -> list[int]:
    """Divisors of `number` up to `limit`, ascending."""
    return [d for d in range(1, min(number, limit) + 1) if number % d == 0]


def power_of_two_divisor(number: int, limit: int) -> int:
    """The largest power of two up to `limit` that divides `number`."""
    return gcd(number, 1 << (limit.bit_length() - 1))


def is_worth_threads(multiply_adds: int, facts: Facts) -> bool:
    """Whether a parallel loop over so much work wins more than waking the threads costs."""
    return facts.num_cores > 1 and multiply_adds > _SERIAL_WORK


def work_of(sch: Schedule, loops: Sequence[LoopRV]) -> int:
    """How often the body of the loop nest runs."""
    return prod(int(sch.get(loop).extent) for loop in loops)


def whole_lanes(extent: int, lanes: int) -> int:
    """Lanes of a vector that never straddles the end of `extent`, so that no lane needs a guard.

    `lanes` where none does: every lane is guarded then.
    """
    common = gcd(extent, lanes)
    return common if common > 1 else lanes


def vector_lanes(extent: int, lanes: int) -> int:
    """Lanes of a vector that divides `extent`: any number where no power of two fills half."""
    even = power_of_two_divisor(extent, lanes)
    return even if even * 2 >= lanes else divisors(extent, lanes)[-1]


def choose(sch: Schedule, values: Sequence[int]) -> tirx.Var:
    """A categorical whose first decision is `values[0]`; every value is as likely."""
    ordered = sorted(set(values))
    probs = [1.0 / len(ordered)] * len(ordered)
    return sch.sample_categorical(ordered, probs, decision=ordered.index(values[0]))


def best_first(values: Sequence[int], score: Callable[[int], float]) -> tuple[int, ...]:
    """`values` with the highest score first."""
    first = max(values, key=score)
    return (first, *(v for v in values if v != first))


def register_tile(rows: Sequence[int], vectors: Sequence[int], registers: int) -> tuple[int, int]:
    """The pair of rows and vectors that does most work per load and fits the registers."""

    def score(pair: tuple[int, int]) -> tuple[float, int]:
        row, vector = pair
        return (_work_per_load(row, vector, registers), row)

    return max(((r, v) for r in rows for v in vectors), key=score)


def _work_per_load(row: int, vector: int, registers: int) -> float:
    """Of a register tile; less than nothing where it does not fit."""
    held = vector if row > 1 else 0
    # LLVM keeps broadcast rows in registers too: accumulators get half of a large file
    share = registers - 4 if row == 1 else max(12, registers // 2)
    if row * vector > share or row * vector + held + 1 > registers:
        return float(-row * vector)
    # a vector load counts twice: it comes from L2, a row's scalar from L1
    return row * vector / (row + 2 * vector)


def rows_with_rest(rows: int, vectors: Sequence[int], registers: int) -> tuple[int, ...]:
    """Heights of row tiles that leave a rest, the best first; none where a divisor does as well."""

    def worth(row: int) -> float:
        filled = rows / (-(-rows // row) * row)
        return filled * max(_work_per_load(row, vector, registers) for vector in vectors)

    most = min(_MAX_ROWS, registers - 1, rows)
    best = max(map(worth, divisors(rows, most)))
    ranked = sorted(range(1, most + 1), key=worth, reverse=True)
    return tuple(row for row in ranked[:_FEW] if worth(row) > best * _REST_GAIN)


def padded_rows(rows: int, registers: int) -> int:
    """`rows` rounded up to a good register tile where no divisor is one; else `rows`."""
    limit = max((registers - 3) // 2, 4)
    if rows <= limit or max(divisors(rows, limit)) * 2 > limit:
        return rows
    return min(-(-rows // r) * r for r in range(limit, limit // 2, -1))


def tile_with_rest(rows: int, tile: Tile, facts: Facts) -> Tile:
    """The same space with row tiles that leave a rest, where those do more work per load."""
    registers = max(facts.vector_registers, 8)
    found = rows_with_rest(rows, tile.vectors, registers)
    if not found:
        return tile
    _, vector = register_tile(found[:1], tile.vectors, registers)
    vectors = best_first(tile.vectors, lambda v: v == vector)
    return replace(tile, rows=found, vectors=vectors, has_rest=True)


def tile_space(rows: int, panels: int, depth: int, lanes: int, facts: Facts) -> Tile:
    """The parameters for `rows` x (`panels` vectors) x `depth`, all of which they divide."""
    registers = max(facts.vector_registers, 8)
    row_values = divisors(rows, min(_MAX_ROWS, registers - 1))
    vector_values = divisors(panels, max(4, (registers - 2) // min(rows, registers)))
    row, vector = register_tile(row_values, vector_values, registers)
    row_gcd = gcd(*(rows // value for value in row_values))
    panel_gcd = gcd(*(panels // value for value in vector_values))
    # the rows that stay in half of L2 while column panels pass, and at least a task a core
    keep = facts.l2_bytes // 2 // max(row * depth * 4, 1)
    if panels // vector < 2 * facts.num_cores:
        keep = min(keep, rows // row // max(facts.num_cores, 1))
    return Tile(
        lanes=lanes,
        rows=best_first(row_values, lambda v: v == row),
        vectors=best_first(vector_values, lambda v: v == vector),
        row_tiles=best_first(divisors(row_gcd, 64), lambda v: v if v <= keep else -v),
        panels=best_first(divisors(panel_gcd, 16), lambda v: -v),
        unrolls=best_first(divisors(depth, 8), lambda v: -abs(v - 4)),
    )


def tile_anchor(
    sch: Schedule,
    anchor: SBlockRV,
    epilogue: SBlockRV,
    roles: Roles,
    tile: Tile,
    facts: Facts,
    *,
    col_axis: int,
    whole_columns: bool = False,
    inner: int = 1,
) -> LoopRV:
    """Tiles `anchor` and runs `epilogue` in the tile, with vectors along its `col_axis`.

    Answers the loop over column panels; `whole_columns` keeps all rows under it, in one task.
    `inner` neighbours of the last reduction stay innermost, for the caller to tensorize.
    """
    loops = sch.get_loops(anchor)
    threads = is_worth_threads(work_of(sch, loops), facts)
    row_tasks, row_tile, row = _split_rows(sch, loops[roles.row], tile, whole=whole_columns)
    vectors = choose(sch, tile.vectors)
    col_rest, vector, lane = sch.split(loops[roles.col], [None, vectors, tile.lanes])
    col_task, panel = sch.split(col_rest, [None, choose(sch, tile.panels)])
    reduce = [loops[i] for i in roles.reduce]
    steps = [choose(sch, tile.unrolls), *([inner] if inner > 1 else [])]
    depth, step, *neighbours = sch.split(reduce[-1], [None, *steps])
    deep = [*reduce[:-1], depth]
    tasks = [*(loops[i] for i in roles.outer), col_task, *row_tasks]
    sch.reorder(*tasks, panel, row_tile, *deep, step, row, vector, lane, *neighbours)
    task = sch.fuse(*tasks)
    if threads:
        sch.parallel(task)
    for loop in (step, row, vector):
        sch.unroll(loop)
    if not neighbours:
        sch.vectorize(lane)
    tile_epilogue(sch, epilogue, row_tile, tile.lanes, col_axis)
    init = sch.decompose_reduction(anchor, deep[0])
    if neighbours:
        sch.vectorize(sch.get_loops(init)[-1])
    return panel


def _split_rows(
    sch: Schedule, rows: LoopRV, tile: Tile, *, whole: bool
) -> tuple[list[LoopRV], LoopRV, LoopRV]:
    """The loops over tasks of row tiles, over the tiles of one, and over a tile's rows."""
    rest, row = sch.split(rows, [None, choose(sch, tile.rows)])
    if tile.has_rest:
        for loop in (rest, row):
            sch.annotate(loop, HINT, True)
    if whole or tile.has_rest:
        return [], rest, row
    task, row_tile = sch.split(rest, [None, choose(sch, tile.row_tiles)])
    return [task], row_tile, row


def tile_epilogue(sch: Schedule, epilogue: SBlockRV, at: LoopRV, lanes: int, col_axis: int) -> None:
    """Runs `epilogue` under the loop `at`, unrolled but for vectors along its axis `col_axis`."""
    iters = sch.get(epilogue).iter_vars
    rank, lanes = len(iters), whole_lanes(int(iters[col_axis].dom.extent), lanes)
    sch.reverse_compute_at(epilogue, at, preserve_unit_loops=True)
    loops = sch.get_loops(epilogue)[-rank:]
    others = [loop for i, loop in enumerate(loops) if i != col_axis]
    vector, lane = sch.split(loops[col_axis], [None, lanes])
    sch.reorder(*others, vector, lane)
    for loop in (*others, vector):
        sch.unroll(loop)
    sch.vectorize(lane)
