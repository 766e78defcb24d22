# SPDX-License-Identifier: Apache-2.0
"""Which failures are worth mending, and when to stop: near misses are debugged, not regenerated."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kope_tvm.context import Trial
from kope_tvm.proposal import Repair

MAX_TURNS = 2

_NOT_THE_PROPOSAL = frozenset({"E_DEVICE", "E_LANE", "E_REPEAT"})
"""Failures that no change of the proposal mends."""

_PLACE = re.compile(r"^((?:step|line) \d+)")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")


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
    by_state = {trial.state: trial for trial in trials}
    mended = {t.proposal.origin.repair.state for t in trials if t.proposal.origin.repair}
    for trial in trials:
        is_theirs = trial.proposal.origin.proposer == proposer
        if is_theirs and trial.state not in mended and _is_mendable(trial):
            turn = _turn(trial) + 1
            signature = signature_of(trial)
            if turn <= MAX_TURNS and signature not in _signatures(trial, by_state):
                yield NearMiss(trial, Repair(trial.state, turn, signature))


def signature_of(trial: Trial) -> str:
    """The failure with its numbers taken out, but for the step or line it is in."""
    reason = trial.reason
    place = _PLACE.match(reason)
    head = place[1] if place else ""
    return f"{trial.code} {head}{_NUMBER.sub('#', reason[len(head) :])}".strip()[:160]


def _is_mendable(trial: Trial) -> bool:
    return bool(trial.code) and trial.code not in _NOT_THE_PROPOSAL and not trial.suspicious


def _turn(trial: Trial) -> int:
    repair = trial.proposal.origin.repair
    return repair.turn if repair else 0


def _signatures(trial: Trial, by_state: Mapping[str, Trial]) -> set[str]:
    """Of the failures that led to a trial: one that returns will not go away."""
    found: set[str] = set()
    repair = trial.proposal.origin.repair
    while repair and repair.signature not in found:
        found.add(repair.signature)
        before = by_state.get(repair.state)
        repair = before.proposal.origin.repair if before else None
    return found
