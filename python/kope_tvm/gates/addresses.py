# SPDX-License-Identifier: Apache-2.0
"""Refuses what takes, makes or compares addresses: a kernel computes with values alone."""

from __future__ import annotations

from kope_tvm import static_checks
from kope_tvm.candidate import Candidate
from kope_tvm.outcome import Verdict, accept, refuse
from kope_tvm.task import Task
from kope_tvm.untuned import of_intrinsics, of_untuned, scheduled_func


class Addresses:
    """What is tensorized may use addresses as the intrinsic's own implementation does."""

    cost = 3

    def check(self, candidate: Candidate, task: Task) -> Verdict:
        """Refuse with E_ADDRESS, naming the first such operator."""
        found = static_checks.addresses(scheduled_func(candidate))
        if found:
            found -= of_untuned(static_checks.addresses, task)
        if found:
            found -= of_intrinsics(static_checks.addresses, candidate)
        if not found:
            return accept("addresses")
        reason = f"{len(found)} operators on addresses in {task.name}, first {min(found)}"
        return refuse("addresses", "E_ADDRESS", reason, suspicious=True)
