# SPDX-License-Identifier: Apache-2.0
"""Proposes what worked before: recalled decisions replayed or transferred, then one knob turned."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from kope_tvm.context import Context, Trial
from kope_tvm.memory.experience import Recalled
from kope_tvm.proposal import Decisions, Origin, Proposal
from kope_tvm.seat import Seat
from kope_tvm.space import Space, difference, neighbours, transferred

_NUM_PARENTS = 3
"""Incumbents whose neighbours are tried in turn."""

_WORTH_REPLAYING = 0.8
"""Of the best known time of its task: what was slower there is not tried here."""


class Experience:
    """Retrieves the nearest decisions and transfers or mutates them; needs no model."""

    def __init__(self, seat: Seat) -> None:
        self._workbench = seat.bench
        self._said: set[str] = set()

    def propose(self, context: Context) -> Sequence[Proposal]:
        """Recalled decisions first, then neighbours of the fastest trials of this run."""
        self._said |= {
            t.proposal.trace for t in context.trials if isinstance(t.proposal, Decisions)
        }
        chosen: list[Proposal] = []
        for proposal in self._ideas(context):
            if len(chosen) == context.num_wanted:
                break
            if proposal.trace not in self._said:
                self._said.add(proposal.trace)
                chosen.append(proposal)
        return chosen

    def _ideas(self, context: Context) -> Iterator[Decisions]:
        for recalled in context.recalled:
            yield from self._recalled(recalled, context)
        yield from self._turned(context)

    def _recalled(self, recalled: Recalled, context: Context) -> Iterator[Decisions]:
        source = recalled.experience
        if not _is_example(recalled):
            return
        origin = Origin("experience", source.state, f"recalled: {recalled.why}", (source.state,))
        if source.task_key == context.task.key:
            yield Decisions(source.space, source.proposal, origin)
            return
        for space in self._spaces(source.space):
            moved = transferred(Space(source.space, source.proposal), space)
            if moved is not None:
                yield Decisions(space.name, moved.trace, origin)

    def _spaces(self, name: str) -> Sequence[Space]:
        if name == "sketch":
            return self._workbench.sketch_spaces
        return [space for space in self._workbench.rule_spaces if space.name == name]

    def _turned(self, context: Context) -> Iterator[Decisions]:
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

    def _neighbours(self, trial: Trial, shuffler: random.Random) -> Iterator[Decisions]:
        assert isinstance(trial.proposal, Decisions)
        parent = Space(trial.proposal.space, trial.proposal.trace)
        steps = [(knob.index, value) for knob in parent.knobs for value in neighbours(knob)]
        shuffler.shuffle(steps)
        for index, value in steps:
            child = parent.turned({index: value})
            origin = Origin("experience", trial.state, difference(parent, child))
            yield Decisions(parent.name, child.trace, origin)


def _is_example(recalled: Recalled) -> bool:
    """Whether it is worth a trial: slow ones and failures are recalled as warnings."""
    source = recalled.experience
    is_right = source.accepted and not source.code and not source.suspicious
    return is_right and source.lane == "decisions" and recalled.value >= _WORTH_REPLAYING


def _parents(context: Context) -> list[Trial]:
    done = [t for t in context.trials if t.measurement and isinstance(t.proposal, Decisions)]
    done = [t for t in done if t.measurement and t.measurement.ok]
    return sorted(done, key=lambda trial: trial.secs)[:_NUM_PARENTS]
