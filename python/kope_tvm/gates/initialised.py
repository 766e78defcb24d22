# SPDX-License-Identifier: Apache-2.0
"""Refuses a candidate that certainly reads what nothing has written."""

from __future__ import annotations

from kope_tvm.candidate import Candidate
from kope_tvm.outcome import Verdict, accept, refuse
from kope_tvm.static_checks import uninitialised_reads
from kope_tvm.task import Task
from kope_tvm.untuned import of_untuned, scheduled_func


class Initialised:
    """Memory that happens to hold zeros makes such a candidate right by chance."""

    cost = 5

    def check(self, candidate: Candidate, task: Task) -> Verdict:
        """Refuse with E_UNINITIALISED, naming the first buffer and element."""
        found = uninitialised_reads(scheduled_func(candidate))
        if found:
            # Parameters that the untuned function reads before it writes them are inputs too.
            known = {one.param for one in of_untuned(uninitialised_reads, task)}
            found = tuple(one for one in found if one.param < 0 or one.param not in known)
        if not found:
            return accept("initialised")
        reason = (
            f"{found[0].buffer}{list(found[0].element)} read before written, "
            f"and {len(found) - 1} buffers more"
        )
        return refuse("initialised", "E_UNINITIALISED", reason)
