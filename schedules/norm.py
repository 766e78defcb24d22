# SPDX-License-Identifier: Apache-2.0
"""Layer, RMS, group and instance normalisation, with what is fused around them."""

from __future__ import annotations

import tvm
from tvm import tirx

from kope_tvm.schedules.rows import schedule_rows
from kope_tvm.schedules.stages import Stages, calls, find_stages, start
from kope_tvm.target import TargetSpec


def norms(func: tirx.PrimFunc, target: TargetSpec) -> list[tvm.s_tir.Schedule]:
    """Row by row: the moments, then the normalised row while it is in cache."""
    started = start(func)
    if started is None:
        return []
    sch, analysis = started
    stages = find_stages(analysis)
    if stages is None or not _is_norm(stages):
        return []
    schedule_rows(sch, stages, target.facts)
    return [sch]


def _is_norm(stages: Stages) -> bool:
    """A reduction, then a result as wide as its rows; the exponentials are softmax's."""
    first, last = stages.stages[0], stages.stages[-1]
    if len(stages.stages) < 2 or last.block.is_reduction or not last.columns:
        return False
    has_exp = any("tirx.exp" in calls(stage.block) for stage in stages.stages)
    num_reductions = sum(stage.block.is_reduction for stage in stages.stages)
    return first.block.is_reduction and not (has_exp and num_reductions > 1)
