# SPDX-License-Identifier: Apache-2.0
"""Proposes what worked before: recalled proposals replayed or transferred, then one knob turned."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from tvm.s_tir import Schedule

from kope_tvm.context import Context, Trial
from kope_tvm.memory.experience import Recalled
from kope_tvm.outcome import Verdict
from kope_tvm.plan.transferred import transferred as transferred_plan
from kope_tvm.proposal import (
    Decisions,
    Origin,
    Plan,
    Proposal,
    Rewrite,
    proposal_from,
    proposal_text,
)
from kope_tvm.schedule_error import TVM_ERRORS
from kope_tvm.seat import Seat
from kope_tvm.space import Space, difference, neighbours, transferred
from kope_tvm.workbench import Workbench, trace_text

_NUM_PARENTS = 3
"""Incumbents whose neighbours are tried in turn."""

_WORTH_REPLAYING = 0.8
"""Of the best known time of its task: what was slower there is not tried here."""


class Experience:
    """Retrieves the nearest proposals and transfers or mutates them; needs no model."""

    def __init__(self, seat: Seat) -> None:
        self._workbench = seat.bench
        self._said: set[str] = set()
        self._plan_spaces: dict[str, Space | None] = {}
        """By the text of the plan and of what it schedules."""

    def propose(self, context: Context) -> Sequence[Proposal]:
        """Recalled proposals first, then neighbours of the fastest trials of this run."""
        self._said |= {proposal_text(trial.proposal) for trial in context.trials}
        chosen: list[Proposal] = []
        ideas = self._ideas(context) if context.num_wanted > 0 else ()
        for proposal in ideas:
            if len(chosen) == context.num_wanted:
                break
            text = proposal_text(proposal)
            if text not in self._said:
                self._said.add(text)
                chosen.append(proposal)
        return chosen

    def _ideas(self, context: Context) -> Iterator[Proposal]:
        for recalled in context.recalled:
            if _is_example(recalled):
                yield from self._recalled(recalled, context)
        yield from self._turned(context)

    def _recalled(self, recalled: Recalled, context: Context) -> Iterator[Proposal]:
        source = recalled.experience
        origin = Origin("experience", source.state, f"recalled: {recalled.why}", (source.state,))
        try:
            proposal = proposal_from(source.lane, source.space, source.proposal, origin)
        except ValueError:  # Written by a newer kope, or damaged.
            return
        if source.task_key == context.task.key:
            yield proposal
        elif isinstance(proposal, Decisions):
            yield from self._moved_decisions(proposal)
        elif isinstance(proposal, Plan):
            yield from self._moved_plan(proposal)

    def _moved_decisions(self, source: Decisions) -> Iterator[Decisions]:
        for space in self._spaces(source.space):
            moved = transferred(Space(source.space, source.trace), space)
            if moved is not None:
                yield Decisions(space.name, moved.trace, source.origin)

    def _spaces(self, name: str) -> Sequence[Space]:
        if name == "sketch":
            return self._workbench.sketch_spaces
        return [space for space in self._workbench.rule_spaces if space.name == name]

    def _moved_plan(self, source: Plan) -> Iterator[Plan]:
        try:
            with self._workbench.tvm_target:
                moved = transferred_plan(source, None, Schedule(self._workbench.mod))
        except TVM_ERRORS:  # The plan names what only its own function has.
            return
        if moved is not None:
            yield moved

    def _turned(self, context: Context) -> Iterator[Proposal]:
        """Neighbours of the fastest trials in turn, the fastest one's first."""
        shuffler = random.Random(context.seed * 7919 + context.round_no)
        streams = [self._neighbours(trial, shuffler) for trial in _parents(context)]
        while streams:
            for stream in list(streams):
                step = next(stream, None)
                if step is None:
                    streams.remove(stream)
                else:
                    yield step

    def _neighbours(self, trial: Trial, shuffler: random.Random) -> Iterator[Proposal]:
        found = trial.proposal
        if not isinstance(found, Rewrite):
            yield from _turns(self._space(found, self._workbench), trial.state, shuffler)
            return
        bench = self._workbench.rewritten(found.script)
        if isinstance(bench, Verdict):
            return
        inner = (
            _first_guesses(bench, trial.state)
            if found.then is None
            else _turns(self._space(found.then, bench), trial.state, shuffler)
        )
        for then in inner:
            yield Rewrite(found.script, then, then.origin)

    def _space(self, proposal: Decisions | Plan, bench: Workbench) -> Space | None:
        """The knobs of a proposal, a plan's once it is applied; None where it no longer applies."""
        if isinstance(proposal, Decisions):
            return Space(proposal.space, proposal.trace)
        key = bench.task.key + proposal_text(proposal)
        if key not in self._plan_spaces:
            applied = bench.apply(proposal)
            self._plan_spaces[key] = (
                None
                if isinstance(applied, Verdict)
                else Space("plan", trace_text(applied.sch.trace))
            )
        return self._plan_spaces[key]


def _turns(space: Space | None, parent: str, shuffler: random.Random) -> Iterator[Decisions]:
    """Each knob one step away from where it is, in random order."""
    if space is None:
        return
    steps = [(knob.index, value) for knob in space.knobs for value in neighbours(knob)]
    shuffler.shuffle(steps)
    for index, value in steps:
        child = space.turned({index: value})
        origin = Origin("experience", parent, difference(space, child))
        yield Decisions(space.name, child.trace, origin)


def _first_guesses(bench: Workbench, parent: str) -> Iterator[Decisions]:
    """What the rules make of a function that was rewritten and left as written."""
    for space in bench.rule_spaces:
        origin = Origin("experience", parent, f"scheduled by {space.name}")
        yield Decisions(space.name, space.trace, origin)


def _is_example(recalled: Recalled) -> bool:
    """Whether it is worth a trial: slow ones and failures are recalled as warnings."""
    source = recalled.experience
    is_right = source.accepted and not source.code and not source.suspicious
    return is_right and recalled.value >= _WORTH_REPLAYING


def _parents(context: Context) -> list[Trial]:
    done = [trial for trial in context.trials if trial.measurement and trial.measurement.ok]
    return sorted(done, key=lambda trial: trial.secs)[:_NUM_PARENTS]
