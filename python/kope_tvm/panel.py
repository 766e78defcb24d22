# SPDX-License-Identifier: Apache-2.0
"""A bandit that shares each batch between the proposers, with a floor for `sketch`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from kope_tvm.context import Context, Trial
from kope_tvm.proposal import Proposal
from kope_tvm.seam import Proposer

SKETCH_FLOOR = 0.25
"""Share of every batch that stock search keeps, so that kope cannot do much worse than stock."""

_GUESSES = frozenset({"rules", "algebra", "rewind"})
"""They have few to make and stand no search: each comes whole and first."""

_FREE_OF_FLOOR = frozenset({"sketch", "rewind"})
"""The floor itself, and who is given the last trials on purpose."""

_NEAR_BEST = 1.03
"""A trial within this factor of the best so far counts as a success of its proposer."""


@dataclass
class _Record:
    tried: int = 0
    good: int = 0

    @property
    def worth(self) -> float:
        """Mean of the Beta(1, 1) posterior of being near the best."""
        return (self.good + 1) / (self.tried + 2)


class Panel:
    """The proposers of one task, in the order in which they are asked."""

    def __init__(self, proposers: Mapping[str, Proposer]) -> None:
        self._proposers = proposers
        self._records = {name: _Record() for name in proposers}

    def propose(self, context: Context) -> list[Proposal]:
        """At most `context.num_wanted` proposals; what one leaves over goes to the next ones."""
        proposals: list[Proposal] = []
        for name, share in self._shares(context).items():
            left = context.num_wanted - len(proposals) - self._floor_after(name, context.num_wanted)
            wanted = min(left, share) if name != "sketch" else left
            proposals += self._ask(name, context, wanted)
        for name in self._proposers:
            proposals += self._ask(name, context, context.num_wanted - len(proposals))
        return proposals

    def show(self, context: Context) -> None:
        """Let every proposer see a context without being asked for anything."""
        for proposer in self._proposers.values():
            proposer.propose(replace(context, num_wanted=0))

    def credit(self, trial: Trial, best_secs: float) -> None:
        """Tell the proposer of a trial how it went against the best before it."""
        record = self._records.get(trial.proposal.origin.proposer)
        if record is not None:
            record.tried += 1
            record.good += trial.secs <= best_secs * _NEAR_BEST

    def _ask(self, name: str, context: Context, wanted: int) -> list[Proposal]:
        if wanted <= 0:
            return []
        return list(self._proposers[name].propose(replace(context, num_wanted=wanted)))[:wanted]

    def _shares(self, context: Context) -> dict[str, int]:
        """Shares by worth, rounded up; what is known comes whole and first."""
        known = _GUESSES | {"experience"} if _was_tuned_before(context) else _GUESSES
        total = sum(self._records[name].worth for name in self._proposers if name not in _GUESSES)
        wanted = context.num_wanted
        return {
            name: wanted if name in known else -int(-wanted * self._records[name].worth // total)
            for name in self._proposers
        }

    def _floor_after(self, name: str, wanted: int) -> int:
        floor = max(1, int(wanted * SKETCH_FLOOR)) if wanted > 1 else 0
        return floor if name not in _FREE_OF_FLOOR and "sketch" in self._proposers else 0


def _was_tuned_before(context: Context) -> bool:
    """Whether this is a first round, and the memory holds the very same function."""
    return not context.trials and any(one.similarity >= 1.0 for one in context.recalled)
