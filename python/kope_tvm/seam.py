# SPDX-License-Identifier: Apache-2.0
"""The seams: what a proposer, a gate and a device must be able to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from kope_tvm.candidate import Candidate
from kope_tvm.context import Context
from kope_tvm.outcome import Measurement, Verdict
from kope_tvm.proposal import Proposal
from kope_tvm.task import Task


class Proposer(Protocol):
    """Made with a `Seat`; proposes at most `context.num_wanted`, best first."""

    def propose(self, context: Context) -> Sequence[Proposal]: ...


class Gate(Protocol):
    """Says whether a candidate may be measured; never raises for a bad candidate."""

    cost: int
    """Gates run in this order, cheap before dear."""

    def check(self, candidate: Candidate, task: Task) -> Verdict: ...


class Device(Protocol):
    """Builds and runs candidates; yields each measurement as it is made."""

    def measure(self, candidates: Sequence[Candidate]) -> Iterator[tuple[int, Measurement]]: ...
