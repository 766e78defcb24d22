# SPDX-License-Identifier: Apache-2.0
"""A plan carried over to a function of other extents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import Any

from tvm.s_tir import Schedule

from kope_tvm.outcome import Verdict
from kope_tvm.plan.index_map import fitted_map
from kope_tvm.plan.primitives.caches import source_of
from kope_tvm.plan.primitives.layouts import shape_of
from kope_tvm.plan.schedule import apply_step
from kope_tvm.plan.step_error import StepError
from kope_tvm.plan.steps import read_steps
from kope_tvm.plan.workpiece import Workpiece
from kope_tvm.proposal import Plan, Step
from kope_tvm.space import fitted_tile


def transferred(plan: Plan, extents_from: Mapping[str, int] | None, sch: Schedule) -> Plan | None:
    """The plan for the function of `sch`, which stays as it is.

    Tiles and the blocks of a layout become the nearest in ratio that divide. `extents_from` are the
    extents of the plan's own function by loop name: where they are the same, a tile stays even if
    it does not divide. None where the names, or what follows, do not fit.
    """
    steps = read_steps([{"do": step.primitive, **step.args} for step in plan.steps])
    if isinstance(steps, Verdict):
        return None
    piece = Workpiece(sch.copy())
    fitted: list[Step] = []
    try:
        for step in steps:
            fitted.append(_fitted(piece, step, extents_from or {}))
            apply_step(piece, fitted[-1])
    except StepError:
        return None
    return replace(plan, steps=tuple(fitted))


def _fitted(piece: Workpiece, step: Step, extents_from: Mapping[str, int]) -> Step:
    args: Mapping[str, Any] = step.args
    if step.primitive == "transform_layout":
        source = source_of(piece, piece.block(args["block"]), args["buffer"])
        return Step(step.primitive, {**args, "map": fitted_map(args["map"], shape_of(source))})
    if step.primitive != "split":
        return step
    extent = piece.loop(piece.block(args["block"]), args["loop"]).extent
    factors = args["factors"]
    if extent < 1 or extents_from.get(args["loop"]) == extent or prod(factors) == extent:
        return step
    rest_at = factors.index(-1) if -1 in factors else 0
    tile = list(fitted_tile(tuple(factors), extent, rest_at=rest_at))
    return Step(step.primitive, {**args, "factors": tile})
