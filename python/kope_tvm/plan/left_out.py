# SPDX-License-Identifier: Apache-2.0
"""A plan with one step left out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tvm.s_tir import Schedule

from kope_tvm.outcome import Verdict
from kope_tvm.plan.schedule import apply_step
from kope_tvm.plan.step_error import StepError
from kope_tvm.plan.steps import read_steps
from kope_tvm.plan.workpiece import Workpiece
from kope_tvm.proposal import Plan, Step


def plans_with_one_left_out(plan: Plan, sch: Schedule) -> Iterator[tuple[Step, Plan]]:
    """Each step, and the plan without it and without what then no longer applies.

    `sch`, the schedule of the plan's own function, stays as it is.
    """
    steps = read_steps([{"do": step.primitive, **step.args} for step in plan.steps])
    if isinstance(steps, Verdict):
        return
    for place, step in enumerate(steps):
        kept = _applicable([*steps[:place], *steps[place + 1 :]], Workpiece(sch.copy()))
        if kept:
            yield step, replace(plan, steps=kept)


def _applicable(steps: list[Step], piece: Workpiece) -> tuple[Step, ...]:
    kept: list[Step] = []
    for step in steps:
        try:
            apply_step(piece, step)
        except StepError:
            continue
        kept.append(step)
    return tuple(kept)
