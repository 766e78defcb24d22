# SPDX-License-Identifier: Apache-2.0
"""The tiles of a plan relative to the hardware."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from kope_tvm.proposal import Plan, Step
from kope_tvm.relative.roles import PLAIN, REST, TASKS, VECTOR
from kope_tvm.relative.wording import Amount, Relative, amount, numbers
from kope_tvm.relative.yardstick import Yardstick

_MARKS = {"vectorize": VECTOR, "parallel": TASKS}


def relative_plan(plan: Plan, made_on: Yardstick) -> Relative:
    """The factors of a plan's splits relative to the machine that they were made on."""
    return Relative(tuple(_amounts(step, plan, made_on) for step in _splits(plan)))


def resized_plan(plan: Plan, made_on: Yardstick, here: Yardstick) -> Plan:
    """The plan with the tiles that its relative factors are here, whether they divide or not."""
    if made_on == here:
        return plan
    steps = [
        _resized(step, _amounts(step, plan, made_on), here) if step.primitive == "split" else step
        for step in plan.steps
    ]
    return replace(plan, steps=tuple(steps))


def _splits(plan: Plan) -> Iterator[Step]:
    return (step for step in plan.steps if step.primitive == "split")


def _amounts(step: Step, plan: Plan, made_on: Yardstick) -> tuple[Amount, ...]:
    args: dict[str, Any] = dict(step.args)
    factors: Sequence[int] = args["factors"]
    called = args.get("into") or [f"{args['loop']}_{place}" for place in range(len(factors))]
    roles = [_role(args["block"], loop, plan) for loop in called]
    return tuple(
        (REST, 0.0) if factor == -1 else amount(factor, role, made_on)
        for factor, role in zip(factors, roles, strict=True)
    )


def _role(block: object, loop: object, plan: Plan) -> str:
    """What a later step makes of the loop."""
    for step in plan.steps:
        if step.primitive in _MARKS and (step.args["block"], step.args["loop"]) == (block, loop):
            return _MARKS[step.primitive]
    return PLAIN


def _resized(step: Step, amounts: tuple[Amount, ...], here: Yardstick) -> Step:
    units = [unit for unit, _ in amounts]
    factors = [
        -1 if unit == REST else max(1, round(number))
        for unit, number in zip(units, numbers(amounts, here), strict=True)
    ]
    return Step(step.primitive, {**step.args, "factors": factors})
