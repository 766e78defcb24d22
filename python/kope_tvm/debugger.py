# SPDX-License-Identifier: Apache-2.0
"""Which failures are worth mending, and when to stop: near misses are debugged, not regenerated."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from kope_tvm.context import Trial
from kope_tvm.proposal import Origin, Repair

MAX_TURNS = 2

_NOT_THE_PROPOSAL = frozenset({"E_DEVICE", "E_LANE", "E_REPEAT"})
"""Failures that no change of the proposal mends."""

_PLACE = re.compile(r"^((?:step|line) \d+)")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")


class Proposed(Protocol):
    """What was tried, in whatever words."""

    @property
    def origin(self) -> Origin: ...


class Tried(Protocol):
    """A trial, as far as mending it goes."""

    @property
    def state(self) -> str: ...
    @property
    def proposal(self) -> Proposed: ...
    @property
    def code(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def suspicious(self) -> bool: ...


_Trial = TypeVar("_Trial", bound=Tried)


@dataclass(frozen=True)
class NearMiss:
    """A failed trial that gets another turn."""

    trial: Trial
    repair: Repair
    """What the proposal that mends it will carry."""

    @property
    def code(self) -> str:
        return self.trial.code

    @property
    def reason(self) -> str:
        return self.trial.reason


def near_misses(trials: Sequence[Trial], proposer: str) -> Iterator[NearMiss]:
    """The failed trials of a proposer that were not answered yet and may be, oldest first."""
    return (NearMiss(trial, repair) for trial, repair in mendable(trials, proposer))


def mendable(trials: Sequence[_Trial], proposer: str) -> Iterator[tuple[_Trial, Repair]]:
    """The same in any words, each with what the proposal that mends it will carry."""
    by_state = {trial.state: trial for trial in trials}
    mended = {t.proposal.origin.repair.state for t in trials if t.proposal.origin.repair}
    for trial in trials:
        is_theirs = trial.proposal.origin.proposer == proposer
        if is_theirs and trial.state not in mended and _is_mendable(trial):
            turn = _turn(trial) + 1
            signature = signature_of(trial)
            if turn <= MAX_TURNS and signature not in _signatures(trial, by_state):
                yield trial, Repair(trial.state, turn, signature)


def signature_of(trial: Tried) -> str:
    """The failure with its numbers taken out, but for the step or line it is in."""
    reason = trial.reason
    place = _PLACE.match(reason)
    head = place[1] if place else ""
    return f"{trial.code} {head}{_NUMBER.sub('#', reason[len(head) :])}".strip()[:160]


def _is_mendable(trial: Tried) -> bool:
    return bool(trial.code) and trial.code not in _NOT_THE_PROPOSAL and not trial.suspicious


def _turn(trial: Tried) -> int:
    repair = trial.proposal.origin.repair
    return repair.turn if repair else 0


def _signatures(trial: Tried, by_state: Mapping[str, Tried]) -> set[str]:
    """Of the failures that led to a trial: one that returns will not go away."""
    found: set[str] = set()
    repair = trial.proposal.origin.repair
    while repair and repair.signature not in found:
        found.add(repair.signature)
        before = by_state.get(repair.state)
        repair = before.proposal.origin.repair if before else None
    return found
