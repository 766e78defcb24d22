# SPDX-License-Identifier: Apache-2.0
"""A tile learned through one compiler as a proposal to the other.

From TVM: the innermost tile of a scheduled function's main block. To TVM: a plan that gives its
main block that tile, with the reduction around it, vectors along it and its rows unrolled.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import prod
from typing import Any

from tvm.s_tir import Schedule

from kope_tvm.candidate import Candidate
from kope_tvm.mlir.script_proposal import Tile, tile_from
from kope_tvm.plan.nest import REDUCE, Loop, loops_of, realizes, variables
from kope_tvm.proposal import Origin, Plan, Step
from kope_tvm.schedule_error import TVM_ERRORS


def tile_of(candidate: Candidate, untouched: Any) -> Tile | None:
    """The innermost tile of the main block of a scheduled module; None where it has none."""
    sch = candidate.sch
    name = main_block(untouched)
    names = [str(one.block.name_hint) for one in realizes(sch.mod["main"])]
    found = next((each for each in (f"{name}_update", name) if each in names), None)
    if found is None:
        return None
    try:
        block = sch.get_sblock(found)
        loops, axes = loops_of(sch, block), _axes(sch, block)
    except TVM_ERRORS:
        return None
    return _tile(loops, [axes.get(loop.sref.stmt.loop_var, -1) for loop in loops])


def plan_of(text: str, mod: Any, origin: Origin) -> Plan | None:
    """The tile of a script's experience as a plan for `mod`; None where there is none."""
    try:
        given = json.loads(text)
    except json.JSONDecodeError:
        return None
    tile = tile_from(given) if isinstance(given, dict) else None
    return None if tile is None else tile_plan(tile, mod, origin)


def tile_plan(tile: Tile, mod: Any, origin: Origin) -> Plan | None:
    """Steps that tile the main block of an untouched module; None where it reduces nothing."""
    sch, name = Schedule(mod), main_block(mod)
    loops = loops_of(sch, sch.get_sblock(name))
    spatial = [loop for loop in loops if loop.kind == "spatial"]
    reduced = [loop.name for loop in loops if loop.kind == "reduce"]
    if not spatial or not reduced:
        return None
    cuts = {spatial[-1].name: tile.columns}
    row = next((loop for loop in reversed(spatial[:-1]) if loop.extent > 1), None)
    if row is not None:
        cuts[row.name] = tile.rows
    for loop in spatial:
        if loop.name in cuts:
            cuts[loop.name] = _dividing(loop.extent, cuts[loop.name])
    return Plan(tuple(_steps(name, spatial, reduced, cuts)), origin)


def main_block(mod: Any) -> str:
    """The block that reduces most; the last one where none reduces."""
    blocks = [one.block for one in realizes(mod["main"])]
    work = {str(block.name_hint): _work(block) for block in blocks}
    return max(work, key=lambda name: (work[name], list(work).index(name)))


def _work(block: Any) -> int:
    """Iterations of a reduction; 0 of what reduces nothing."""
    is_reduction = any(int(one.iter_type) == REDUCE for one in block.iter_vars)
    extents = [one.dom.extent for one in block.iter_vars]
    return prod(int(getattr(each, "value", 1)) for each in extents) if is_reduction else 0


def _axes(sch: Schedule, block: Any) -> dict[Any, int]:
    """Which iterator of the block each loop variable moves."""
    stmt = sch.get_sref(block).stmt
    (realize,) = (one for one in realizes(sch.mod["main"]) if one.block.same_as(stmt))
    values = enumerate(realize.iter_values)
    return {var: axis for axis, value in values for var in variables(value)}


def _tile(loops: Sequence[Loop], axes: Sequence[int]) -> Tile | None:
    """What lies within the innermost reduction that has anything spatial in it."""
    inside: dict[int, int] = {}
    depth, lanes_axis = 1, -1
    for loop, axis in zip(reversed(loops), reversed(axes), strict=True):
        if loop.kind == "reduce" and loop.extent > 1:
            if loop.mode != "unrolled" and inside:
                break
            depth *= loop.extent
        elif loop.kind == "spatial" and loop.extent > 1:
            lanes_axis = axis if lanes_axis < 0 else lanes_axis
            inside[axis] = inside.get(axis, 1) * loop.extent
    columns = inside.pop(lanes_axis, 0)
    return Tile(prod(inside.values()), columns, min(depth, 4)) if columns > 1 else None


def _dividing(extent: int, wanted: int) -> int:
    """The divisor of an extent that is nearest to a size."""
    found = [each for each in range(1, min(extent, 2 * wanted) + 1) if extent % each == 0]
    return min(found, key=lambda each: (abs(each - wanted), each))


def _steps(
    block: str, spatial: Sequence[Loop], reduced: Sequence[str], cuts: dict[str, int]
) -> list[Step]:
    def step(primitive: str, **args: object) -> Step:
        return Step(primitive, {"block": block, **args})

    steps = [
        step("split", loop=name, factors=[-1, size], into=[f"{name}_o", f"{name}_i"])
        for name, size in cuts.items()
    ]
    outer = {
        f"{loop.name}_o" if loop.name in cuts else loop.name: loop.extent // cuts.get(loop.name, 1)
        for loop in spatial
    }
    inner = [f"{loop.name}_i" for loop in spatial if loop.name in cuts]
    steps.append(step("reorder", loops=[*outer, *reduced, *inner]))
    spread = next((name for name, extent in outer.items() if extent > 1), None)
    if spread is not None:
        steps.append(step("parallel", loop=spread))
    steps.append(step("vectorize", loop=inner[-1]))
    steps += [step("unroll", loop=each) for each in inner[:-1]]
    steps.append(step("decompose_reduction", loop=reduced[0]))
    return steps
