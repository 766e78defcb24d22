# SPDX-License-Identifier: Apache-2.0
"""Dot products: a contraction whose both operands lie along the reduction, vectors along it.

For a product with one row by a transposed matrix, and for a 1x1 convolution of one pixel,
where packing the matrix would cost more than the product.
"""

from __future__ import annotations

from math import prod

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV

from kope_tvm.schedules.contraction import (
    Roles,
    best_first,
    choose,
    divisors,
    is_worth_threads,
    vector_lanes,
)
from kope_tvm.target import Facts


def tile_dot(
    sch: Schedule, anchor: SBlockRV, epilogue: SBlockRV, roles: Roles, lanes: int, facts: Facts
) -> None:
    """Splits the last reduction iterator into vectors, each summed at the end of its tile."""
    loops = sch.get_loops(anchor)
    extents = [int(sch.get(loop).extent) for loop in loops]
    deep = roles.reduce[-1]
    rank = len(extents) - len(roles.reduce)
    _, lane = sch.split(loops[deep], [None, vector_lanes(extents[deep], lanes)])
    partial = sch.rfactor(lane, rank)
    sch.set_scope(partial, 0, "local")
    spatial = sch.get_loops(anchor)[:rank]
    others = [loop for i, loop in enumerate(spatial) if i != roles.col]
    most = max(facts.vector_registers, 8) // 2
    cols = best_first(divisors(extents[roles.col], 16), lambda c: c if c <= most // 2 else -c)
    task, tile = sch.split(spatial[roles.col], [None, choose(sch, cols)])
    sch.reorder(*others, task, tile)
    group = sch.fuse(*others, task)
    if is_worth_threads(prod(extents), facts):
        sch.parallel(group)
    sch.compute_at(partial, group, preserve_unit_loops=True)
    _tile_partial(sch, partial, roles.col, rank)
    for loop in sch.get_loops(anchor)[-2:]:
        sch.unroll(loop)
    sch.reverse_compute_at(epilogue, group, preserve_unit_loops=True)
    for loop in sch.get_loops(epilogue)[1:]:
        sch.unroll(loop)


def _tile_partial(sch: Schedule, partial: SBlockRV, col: int, rank: int) -> None:
    _, lane, *loops = sch.get_loops(partial)
    spatial, reduce = loops[:rank], loops[rank:]
    others = [loop for i, loop in enumerate(spatial) if i != col]
    sch.reorder(*others, *reduce, spatial[col], lane)
    sch.unroll(spatial[col])
    sch.vectorize(lane)
    sch.decompose_reduction(partial, reduce[0])
