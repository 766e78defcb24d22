# SPDX-License-Identifier: Apache-2.0
"""Stages that go head by head, on RISC-V vectors."""

from __future__ import annotations

from tvm import tirx
from tvm.s_tir import Schedule

from kope_tvm.schedules.heads import heads
from kope_tvm.schedules.vectors import by_groups
from kope_tvm.target import TargetSpec


def schedule(func: tirx.PrimFunc, target: TargetSpec) -> list[Schedule]:
    """What `heads` makes of the function, with registers in groups of each size."""
    return by_groups(heads, func, target)
