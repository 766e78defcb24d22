# SPDX-License-Identifier: Apache-2.0
"""Proposes what worked before: recalled proposals replayed or transferred, then one knob turned."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from kope_tvm.context import Context, Trial
from kope_tvm.memory.experience import Experience as Remembered
from kope_tvm.memory.experience import Recalled
from kope_tvm.memory.recall import SLOW
from kope_tvm.outcome import Verdict
from kope_tvm.proposal import (
    Decisions,
    Origin,
    Plan,
    Proposal,
    Rewrite,
    lane_of,
    proposal_text,
    space_of,
)
from kope_tvm.seat import Seat
from kope_tvm.space import TUNING, VECTORS, Knob, Space, Value, difference, neighbours
from kope_tvm.transfer import Transfer
from kope_tvm.turns import Turns
from kope_tvm.workbench import Workbench, trace_text

_NUM_PARENTS = 3
"""Incumbents whose neighbours are tried in turn."""

_NUM_TRANSITIONS = 256

_RANKS = {TUNING: -1, VECTORS: 1}
"""Of the guesses for a K1 every third gained by the former; the latter cost 1.5 times and more."""

_WORTH_REPLAYING = 0.8
"""Of the value of its space's best: what was slower there is not tried here."""


@dataclass(frozen=True)
class _Order:
    """In which order the steps away from a setting are tried."""

    shuffler: random.Random
    turns: Turns

    def of(self, space: Space) -> list[tuple[Knob, Value]]:
        """What made similar tasks faster, then the unknown in random order, then the rest.

        Of the unknown the order of instructions leads and the kind of vectors comes last.
        """
        steps = [(knob, value) for knob in space.knobs for value in neighbours(knob)]
        self.shuffler.shuffle(steps)
        ranks = {space.forms[key].index: rank for key, rank in _RANKS.items() if key in space.forms}

        def key(step: tuple[Knob, Value]) -> tuple[float, int]:
            return -self.turns.worth(space.name, *step), ranks.get(step[0].index, 0)

        return sorted(steps, key=key)


class Experience:
    """Retrieves the nearest proposals and transfers or mutates them; needs no model."""

    def __init__(self, seat: Seat) -> None:
        self._workbench = seat.bench
        self._memory = seat.memory
        self._transfer = Transfer(seat.bench, seat.memory)
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
        examples = sorted(_examples(context.recalled), key=_known_first)
        found = [self._transfer.proposals(one) for one in examples]
        yield from _diverse([one for each in found for one in each])
        yield from self._turned(context)

    def _turned(self, context: Context) -> Iterator[Proposal]:
        """Neighbours of the fastest trials in turn, the fastest one's first."""
        parents = _parents(context)
        order = _Order(random.Random(context.seed * 7919 + context.round_no), self._turns(parents))
        streams = [self._neighbours(trial, order) for trial in parents]
        while streams:
            for stream in list(streams):
                step = next(stream, None)
                if step is None:
                    streams.remove(stream)
                else:
                    yield step

    def _turns(self, parents: Sequence[Trial]) -> Turns:
        if self._memory is None or not parents:
            return Turns()
        return Turns.learned(self._memory.transitions(self._workbench.task, _NUM_TRANSITIONS))

    def _neighbours(self, trial: Trial, order: _Order) -> Iterator[Proposal]:
        found = trial.proposal
        if not isinstance(found, Rewrite):
            yield from _turns(self._space(found, self._workbench), trial.state, order)
            return
        bench = self._workbench.rewritten(found.script)
        if isinstance(bench, Verdict):
            return
        inner = (
            _first_guesses(bench, trial.state)
            if found.then is None
            else _turns(self._space(found.then, bench), trial.state, order)
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


def _turns(space: Space | None, parent: str, order: _Order) -> Iterator[Decisions]:
    """Each knob one step away from where it is."""
    if space is None:
        return
    for knob, value in order.of(space):
        child = space.turned({knob.index: value})
        origin = Origin("experience", parent, difference(space, child))
        yield Decisions(space.name, child.trace, origin)


def _first_guesses(bench: Workbench, parent: str) -> Iterator[Decisions]:
    """What the rules make of a function that was rewritten and left as written."""
    for space in bench.rule_spaces:
        origin = Origin("experience", parent, f"scheduled by {space.name}")
        yield Decisions(space.name, space.trace, origin)


def _diverse(proposals: Sequence[Proposal]) -> Iterator[Proposal]:
    """The best of each space in turn: what is next to the best of one is tried later anyway."""
    by_space: dict[tuple[str, str], list[Proposal]] = {}
    for proposal in proposals:
        by_space.setdefault((lane_of(proposal), space_of(proposal)), []).append(proposal)
    for rank in zip_longest(*by_space.values()):
        yield from (proposal for proposal in rank if proposal is not None)


def _known_first(one: Recalled) -> float:
    """What was measured on this very task and machine needs no credit: the fastest leads."""
    return -one.value if one.similarity >= 1.0 else 0.0


def _examples(recalled: Sequence[Recalled]) -> list[Recalled]:
    """What is worth a trial: failures and slow ones are recalled as warnings.

    Each space is judged by its own best: what beats it in another lane may not carry over.
    """
    right = [one for one in recalled if _is_right(one.experience) and one.value > SLOW]
    best: dict[tuple[str, str], float] = {}
    for one in right:
        best[_place(one)] = max(one.value, best.get(_place(one), 0.0))
    return [one for one in right if one.value >= _WORTH_REPLAYING * best[_place(one)]]


def _is_right(source: Remembered) -> bool:
    return source.accepted and not source.code and not source.suspicious


def _place(one: Recalled) -> tuple[str, str]:
    return one.experience.lane, one.experience.space


def _parents(context: Context) -> list[Trial]:
    done = [trial for trial in context.trials if trial.measurement and trial.measurement.ok]
    return sorted(done, key=lambda trial: trial.secs)[:_NUM_PARENTS]
