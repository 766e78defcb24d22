# SPDX-License-Identifier: Apache-2.0
"""Refuses a candidate of which two parallel iterations certainly write one element."""

from __future__ import annotations

from kope_tvm import static_checks
from kope_tvm.candidate import Candidate
from kope_tvm.outcome import Verdict, accept, refuse
from kope_tvm.task import Task
from kope_tvm.untuned import scheduled_func


class Races:
    """A race can come out right a thousand times: no run proves that there is none."""

    cost = 5

    def check(self, candidate: Candidate, task: Task) -> Verdict:
        """Refuse with E_RACE, naming the first buffer and its parallel loop."""
        found = static_checks.races(scheduled_func(candidate))
        if not found:
            return accept("races")
        first = found[0]
        reason = f"{len(found)} racing writes, first to {first.buffer} in parallel {first.loop}"
        return refuse("races", "E_RACE", reason)
