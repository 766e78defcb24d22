# SPDX-License-Identifier: Apache-2.0
"""What a model is told of a task: recalled, measured and planned, handed to the prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from kope_tvm.candidate import Candidate
from kope_tvm.chat.dialogue import Left
from kope_tvm.context import Context
from kope_tvm.debugger import NearMiss
from kope_tvm.feedback.machine_code import summary
from kope_tvm.feedback.simulated import simulated_lines
from kope_tvm.outcome import Verdict
from kope_tvm.planner import Choice, choose
from kope_tvm.prompt.brief import Brief, brief
from kope_tvm.prompt.repair import refusal_brief, repair_brief
from kope_tvm.prompt.reply import Refused
from kope_tvm.prompt.view import LANES, View
from kope_tvm.proposal import Proposal
from kope_tvm.seat import Seat
from kope_tvm.workbench import TVM_ERRORS


class Briefing:
    """Makes the briefs of one task."""

    lanes: tuple[str, ...] = LANES
    """Those that a reply may use, whatever is advised."""

    def __init__(self, seat: Seat) -> None:
        self._seat = seat
        self._feedback: dict[str, tuple[str, ...]] = {}
        """What the machine code of an incumbent showed, by state."""

    def proposal(self, context: Context, pending: Sequence[Proposal], left: Left) -> Brief | None:
        """The brief of a round; None where the planner says that a call is not worth it."""
        lessons = self.lessons(context)
        choice = self.choice(context, lessons)
        if not choice.worth_asking:
            return None
        view = self.view(context, choice, lessons, left)
        return brief(replace(view, pending=tuple(pending)))

    def repair(self, context: Context, miss: NearMiss, left: Left) -> Brief | None:
        """The brief of a repair turn; None where there is to be none."""
        view = self._view_of_failure(context, left)
        return repair_brief(view, miss.trial, fixes=self._fixes(miss.repair.signature))

    def refusal(self, context: Context, refused: Refused, left: Left) -> Brief | None:
        """The brief that asks again for what could not be read; None for no second chance."""
        view = self._view_of_failure(context, left)
        return refusal_brief(view, refused, self._fixes(str(refused.verdict)))

    def _view_of_failure(self, context: Context, left: Left) -> View:
        lessons = self.lessons(context)
        return self.view(context, self.choice(context, lessons), lessons, left)

    def lessons(self, context: Context) -> tuple[str, ...]:
        """What the memory says of functions of this kind."""
        memory = self._seat.memory
        return memory.lessons(context.task) if memory else ()

    def view(self, context: Context, choice: Choice, lessons: tuple[str, ...], left: Left) -> View:
        """All that a prompt of this round may be made of."""
        memory, task = self._seat.memory, context.task
        best = context.best
        return View(
            context,
            self._seat.bench,
            lanes=choice.lanes,
            lanes_reason=choice.reason,
            lessons=lessons,
            transitions=memory.transitions(task) if memory else (),
            feedback=self._machine_code(best.state, best.proposal) if best else (),
            tokens_left=left.tokens,
            calls_left=left.calls,
        )

    def choice(self, context: Context, lessons: tuple[str, ...]) -> Choice:
        """The lanes to advise, and whether a call may pay."""
        best = context.best
        return choose(
            context.task,
            best_secs=best.secs if best else float("inf"),
            baseline_secs=context.baseline_secs,
            roof_secs=context.roof_secs,
            lessons=lessons,
            trials=context.trials,
            has_rules=self._has_rules,
        )

    @cached_property
    def _has_rules(self) -> bool:
        return bool(self._seat.bench.rule_spaces)

    def _machine_code(self, state: str, proposal: Proposal) -> tuple[str, ...]:
        """Of a program that a measuring process has compiled already: LLVM lives through it."""
        if state not in self._feedback:
            candidate = self._seat.bench.apply(proposal)
            self._feedback[state] = self._read(candidate)
        return self._feedback[state]

    def _read(self, candidate: Candidate | Verdict) -> tuple[str, ...]:
        if isinstance(candidate, Verdict):
            return ()
        bench, mod = self._seat.bench, candidate.sch.mod
        try:
            found = summary(mod, bench.tvm_target)
            lines = (found.line,) if found else ()
            counted = simulated_lines(mod, bench.task.target) if self._seat.simulated else ()
        except TVM_ERRORS:  # What it became is worth a line, not a round.
            return ()
        return (*lines, *counted)

    def _fixes(self, signature: str) -> tuple[Any, ...]:
        memory = self._seat.memory
        op_class = self._seat.bench.task.features.op_class
        return memory.fixes(signature, op_class) if memory else ()
