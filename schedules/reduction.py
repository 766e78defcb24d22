# SPDX-License-Identifier: Apache-2.0
"""Sums, maxima and means over any axes, with what is fused around them."""

from __future__ import annotations

import tvm
from tvm import tirx

from kope_tvm.schedules.rows import schedule_rows
from kope_tvm.schedules.stages import find_stages, start
from kope_tvm.target import TargetSpec


def reductions(func: tirx.PrimFunc, target: TargetSpec) -> list[tvm.s_tir.Schedule]:
    """Several vectors of partial results along contiguous columns, else the rows as lanes."""
    started = start(func)
    if started is None:
        return []
    sch, analysis = started
    stages = find_stages(analysis)
    if stages is None or any(
        stage.columns and not stage.block.is_reduction for stage in stages.stages
    ):
        return []
    schedule_rows(sch, stages, target.facts)
    return [sch]
