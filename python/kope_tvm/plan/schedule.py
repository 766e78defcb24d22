# SPDX-License-Identifier: Apache-2.0
"""Applies a plan's steps to a schedule, one by one, and says of the first illegal one why."""

from __future__ import annotations

import re

from tvm.s_tir import Schedule

from kope_tvm.outcome import Verdict, refuse
from kope_tvm.plan.primitives import primitives
from kope_tvm.plan.step_error import StepError, sentence
from kope_tvm.plan.steps import read_steps
from kope_tvm.plan.workpiece import Workpiece
from kope_tvm.proposal import Plan, Step
from kope_tvm.schedule_error import TVM_ERRORS, first_line

_REFUSALS = (*TVM_ERRORS, AssertionError, OverflowError)
_PLACEHOLDER = re.compile(r"(?:\b(?:block|loop|stmt|root) )?\b(?:tirx|s_tir)\.(For|SBlock)#\d+")
_LEAD = re.compile(r"^[\w-]+: (?:ScheduleError: )?")

_HELP = {
    "neither a local complete block nor": (
        "a block under it was decomposed: put decompose_reduction after this step"
    ),
    "not a data parallel block iter": "a block under it reduces over it: take a spatial loop",
    "consumer(s) of the given block to be": (
        "a consumer of the block is elsewhere: take a loop around all of them"
    ),
    "producer(s) of the given block to be": (
        "a producer of the block is elsewhere: take a loop around all of them"
    ),
    "is an output block": "outputs stay: move or inline the block that it reads",
    "has init statement": "a reduction cannot be inlined",
}
"""What messages of TVM mean for a plan."""


def planned(plan: Plan, sch: Schedule) -> Verdict | None:
    """Apply the steps to `sch`; the verdict on the first illegal step, None where all are legal."""
    steps = read_steps([{"do": step.primitive, **step.args} for step in plan.steps])
    if isinstance(steps, Verdict):
        return steps
    piece = Workpiece(sch)
    for number, step in enumerate(steps, 1):
        try:
            apply_step(piece, step)
        except StepError as error:
            reason = sentence(number, step.primitive, step.args, error)
            return refuse("plan", "E_STEP", reason)
    return None


def apply_step(piece: Workpiece, step: Step) -> None:
    """Apply one step that was read; raises StepError with TVM's reason or a better one."""
    try:
        primitives()[step.primitive].apply(piece, step.args)
    except _REFUSALS as error:
        at_fault = next(
            name for name in ("loop", "loops", "at", "buffer", "block") if name in step.args
        )
        raise StepError(at_fault, _told(error)) from None


def _told(error: BaseException) -> str:
    text = first_line(error, limit=1000)
    meant = next((meant for mark, meant in _HELP.items() if mark in text), "")
    return meant or _PLACEHOLDER.sub(_what, _LEAD.sub("", text))[:200]


def _what(found: re.Match[str]) -> str:
    return "loop" if found[1] == "For" else "block"
