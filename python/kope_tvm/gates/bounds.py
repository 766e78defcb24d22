# SPDX-License-Identifier: Apache-2.0
"""Refuses a candidate that certainly reads or writes beside its buffers."""

from __future__ import annotations

from kope_tvm.candidate import Candidate
from kope_tvm.outcome import Verdict, accept, refuse
from kope_tvm.static_checks import out_of_bounds
from kope_tvm.task import Task
from kope_tvm.untuned import scheduled_func


class Bounds:
    """Only what happens whatever the data is; guard words on the device find the rest."""

    cost = 5

    def check(self, candidate: Candidate, task: Task) -> Verdict:
        """Refuse with E_BOUNDS, naming the first index."""
        found = out_of_bounds(scheduled_func(candidate))
        if not found:
            return accept("bounds")
        first = found[0]
        axis = f"axis {first.axis}" if first.axis >= 0 else "memory"
        reason = f"index {first.index} on {axis} of {first.buffer}, which has {first.extent}"
        return refuse("bounds", "E_BOUNDS", reason)
