# SPDX-License-Identifier: Apache-2.0
"""A product of one row with a matrix that is read once, in the order in which it lies.

A tile of columns would jump from row to row of the matrix, and no prefetcher follows: here a few
whole rows pass by at a time, and the sums lie in the nearest cache.
"""

from __future__ import annotations

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV

from kope_tvm.schedules.contraction import (
    Roles,
    best_first,
    choose,
    divisors,
    is_worth_threads,
    power_of_two_divisor,
    whole_lanes,
    work_of,
)
from kope_tvm.target import Facts

_DEEP = (8, 4, 2, 1)
"""Rows of the matrix that pass by together: each sum is loaded and stored once for all of them."""
_WIDE = 2048
"""Columns of one parallel task, at most: their sums fill a quarter of a first-level cache."""


def stream(
    sch: Schedule, anchor: SBlockRV, epilogue: SBlockRV, roles: Roles, lanes: int, facts: Facts
) -> None:
    """Schedules the anchor so; its epilogue follows each task of columns."""
    loops = sch.get_loops(anchor)
    threads = is_worth_threads(work_of(sch, loops), facts)
    extents = [int(sch.get(loop).extent) for loop in loops]
    width = extents[roles.col]
    lane_count = power_of_two_divisor(width, lanes)
    vectors = width // lane_count
    tasks = facts.num_cores if threads else 1
    shares = [n for n in divisors(vectors, vectors) if n * lane_count <= _WIDE]
    best = best_first(shares, lambda n: n if vectors // n >= tasks else -n)
    task, vector, lane = sch.split(loops[roles.col], [None, choose(sch, best), lane_count])
    deep = [n for n in _DEEP if extents[roles.reduce[-1]] % n == 0]
    *outer_deep, last = [loops[i] for i in roles.reduce]
    rows, step = sch.split(last, [None, choose(sch, deep)])
    others = [loop for i, loop in enumerate(loops) if i not in (roles.col, *roles.reduce)]
    sch.reorder(*others, task, *outer_deep, rows, vector, step, lane)
    group = sch.fuse(*others, task)
    if threads:
        sch.parallel(group)
    sch.unroll(step)
    sch.vectorize(lane)
    sch.reverse_compute_at(epilogue, group, preserve_unit_loops=True)
    last_loop = sch.get_loops(epilogue)[-1]
    _, lane = sch.split(last_loop, [None, whole_lanes(int(sch.get(last_loop).extent), lanes)])
    sch.vectorize(lane)
    init = sch.decompose_reduction(anchor, rows if not outer_deep else outer_deep[0])
    sch.vectorize(sch.get_loops(init)[-1])
