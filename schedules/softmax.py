# SPDX-License-Identifier: Apache-2.0
"""softmax and log_softmax over any axis, with what is fused around them, on x86 vectors."""

from __future__ import annotations

import tvm
from tvm import tirx

from kope_tvm.schedules.rows import schedule_rows
from kope_tvm.schedules.stages import calls, find_stages, start
from kope_tvm.target import TargetSpec


def softmaxes(func: tirx.PrimFunc, target: TargetSpec) -> list[tvm.s_tir.Schedule]:
    """Row by row: maximum, exponentials, their sum and the quotient while the row is in cache."""
    started = start(func)
    if started is None:
        return []
    sch, analysis = started
    stages = find_stages(analysis)
    has_exp = any("tirx.exp" in calls(block) for block in analysis.blocks)
    if stages is None or not has_exp or len(analysis.reductions) < 2:
        return []
    schedule_rows(sch, stages, target.facts)
    return [sch]
