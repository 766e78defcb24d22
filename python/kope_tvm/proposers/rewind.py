# SPDX-License-Identifier: Apache-2.0
"""Undoes single decisions of the best trials, that the memory knows what each was worth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from tvm.s_tir import Schedule

from kope_tvm.context import Context, Trial
from kope_tvm.outcome import Verdict
from kope_tvm.plan.left_out import plans_with_one_left_out
from kope_tvm.proposal import (
    Decisions,
    Origin,
    Plan,
    Proposal,
    Rewrite,
    Step,
    proposal_text,
    with_origin,
)
from kope_tvm.schedule_error import TVM_ERRORS
from kope_tvm.seat import Seat
from kope_tvm.space import Space, difference
from kope_tvm.undo import undone
from kope_tvm.workbench import Workbench

_NUM_WINNERS = 3


class Rewind:
    """Proposes nothing until the last trials of a run, `Seat.rewind` of them."""

    def __init__(self, seat: Seat) -> None:
        self._bench = seat.bench
        self._num_trials = seat.rewind
        self._said: set[str] = set()

    def propose(self, context: Context) -> Sequence[Proposal]:
        """The decisions of the winner undone one by one, then those of the next fastest."""
        left_after = context.trials_left - context.num_wanted
        wanted = min(context.num_wanted, self._num_trials - left_after)
        return list(islice(self._fresh(context), max(wanted, 0)))

    def _fresh(self, context: Context) -> Iterator[Proposal]:
        self._said |= {proposal_text(trial.proposal) for trial in context.trials}
        for trial in _winners(context):
            for proposal in _undone(trial.proposal, self._bench, trial.state):
                text = proposal_text(proposal)
                if text not in self._said:
                    self._said.add(text)
                    yield proposal


def _winners(context: Context) -> list[Trial]:
    """The fastest trials; what was only made to undo something is not undone in turn."""
    done = [
        trial
        for trial in context.trials
        if trial.measurement and trial.measurement.ok and trial.proposal.origin.proposer != "rewind"
    ]
    return sorted(done, key=lambda trial: trial.secs)[:_NUM_WINNERS]


def _undone(proposal: Proposal, bench: Workbench, state: str) -> Iterator[Proposal]:
    """The proposal without one of its decisions."""
    if isinstance(proposal, Decisions):
        yield from _undone_decisions(proposal, bench, state)
    elif isinstance(proposal, Plan):
        yield from _undone_steps(proposal, bench, state)
    elif proposal.then is not None:
        inner = bench.rewritten(proposal.script)
        if not isinstance(inner, Verdict):
            for then in _undone(proposal.then, inner, state):
                if not isinstance(then, Rewrite):
                    yield Rewrite(proposal.script, then, then.origin)


def _undone_decisions(given: Decisions, bench: Workbench, state: str) -> Iterator[Decisions]:
    space = Space(given.space, given.trace)
    guess = next((each for each in bench.rule_spaces if each.name == given.space), None)
    for child in undone(space, guess):
        yield Decisions(given.space, child.trace, _origin(state, difference(space, child)))


def _undone_steps(given: Plan, bench: Workbench, state: str) -> Iterator[Proposal]:
    try:
        with bench.tvm_target:
            found = list(plans_with_one_left_out(given, Schedule(bench.mod)))
    except TVM_ERRORS:  # It no longer applies as a whole.
        return
    for step, plan in found:
        yield with_origin(plan, _origin(state, _spelled(step)))


def _origin(state: str, decision: str) -> Origin:
    return Origin("rewind", state, f"undo {decision}")


def _spelled(step: Step) -> str:
    return f"{step.primitive} {' '.join(f'{name}={value}' for name, value in step.args.items())}"
