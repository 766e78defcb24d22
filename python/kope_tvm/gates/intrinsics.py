# SPDX-License-Identifier: Apache-2.0
"""Refuses schedules that tensorize with an intrinsic of TVM's that is known to be wrong."""

from __future__ import annotations

from kope_tvm.candidate import Candidate
from kope_tvm.outcome import Verdict, accept, refuse
from kope_tvm.task import Task
from kope_tvm.workbench import trace_text
from kope_tvm.wrong_intrinsics import wrong_intrinsic


class Intrinsics:
    """RISC-V's dot products, which MetaSchedule proposes wherever a target has the feature `v`."""

    cost = 1

    def check(self, candidate: Candidate, task: Task) -> Verdict:
        """Refuse with E_INTRINSIC, naming it."""
        trace = candidate.sch.trace
        name = wrong_intrinsic(trace_text(trace)) if trace is not None else ""
        if not name:
            return accept("intrinsics")
        reason = f"{task.name} is tensorized with TVM's {name}, which ignores where its tile lies"
        return refuse("intrinsics", "E_INTRINSIC", reason)
