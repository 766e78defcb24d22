# SPDX-License-Identifier: Apache-2.0
"""Applies a plan's steps to a schedule, one by one, and says of the first illegal one why."""

from __future__ import annotations

from tvm.s_tir import Schedule

from kope_tvm.outcome import Verdict, refuse
from kope_tvm.proposal import Plan


def planned(plan: Plan, sch: Schedule) -> Verdict | None:
    """Apply the steps to `sch`; the verdict on the first illegal step, None where all are legal."""
    del sch
    return refuse("plan", "E_LANE", f"no plans yet: {len(plan.steps)} steps")
