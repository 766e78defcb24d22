# SPDX-License-Identifier: Apache-2.0
"""Refuses a module that TVM itself calls ill-formed, or that reads what was never written."""

from __future__ import annotations

from tvm.s_tir import analysis

from kope_tvm.candidate import Candidate
from kope_tvm.outcome import Verdict, accept, refuse
from kope_tvm.task import Task


class WellFormed:
    """`tvm.s_tir.analysis.verify_well_formed` on every function."""

    cost = 1

    def check(self, candidate: Candidate, task: Task) -> Verdict:
        """Refuse with E_MALFORMED."""
        if analysis.verify_well_formed(candidate.sch.mod, assert_mode=False):
            return accept("well_formed")
        return refuse(
            "well_formed", "E_MALFORMED", f"{task.name}: the scheduled module is ill-formed"
        )
