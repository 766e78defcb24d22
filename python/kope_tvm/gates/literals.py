# SPDX-License-Identifier: Apache-2.0
"""Refuses a table of constants: results worked out beforehand, for inputs known beforehand."""

from __future__ import annotations

from kope_tvm import static_checks
from kope_tvm.candidate import Candidate
from kope_tvm.outcome import Verdict, accept, refuse
from kope_tvm.task import Task
from kope_tvm.untuned import of_untuned, scheduled_func

_MAX_MORE = 64
"""Constants beyond the untuned function's: a polynomial takes a dozen, Winograd twenty."""


class Literals:
    """Counts different constants among what is computed, not among indices."""

    cost = 3

    def check(self, candidate: Candidate, task: Task) -> Verdict:
        """Refuse with E_LITERAL."""
        found = static_checks.literals(scheduled_func(candidate))
        most = of_untuned(static_checks.literals, task) + _MAX_MORE
        if found <= most:
            return accept("literals")
        reason = f"{found} different constants in {task.name}, at most {most} are allowed"
        return refuse("literals", "E_LITERAL", reason, suspicious=True)
