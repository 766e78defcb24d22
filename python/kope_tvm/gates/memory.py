# SPDX-License-Identifier: Apache-2.0
"""Refuses a candidate whose temporaries do not fit into what the target may use."""

from __future__ import annotations

from kope_tvm.candidate import Candidate
from kope_tvm.outcome import Verdict, accept, refuse
from kope_tvm.static_checks import temporary_bytes
from kope_tvm.task import Task
from kope_tvm.untuned import scheduled_func


class Memory:
    """All temporaries count, though some may be dead before others are born."""

    cost = 2

    def check(self, candidate: Candidate, task: Task) -> Verdict:
        """Refuse with E_MEMORY."""
        num_bytes = temporary_bytes(scheduled_func(candidate))
        most = task.target.limits.memory_bytes
        if num_bytes <= most:
            return accept("memory")
        reason = f"{num_bytes:.3g} bytes of temporaries in {task.name}, at most {most} are allowed"
        return refuse("memory", "E_MEMORY", reason)
