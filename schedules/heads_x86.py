# SPDX-License-Identifier: Apache-2.0
"""Stages that go head by head, on x86 vectors."""

from __future__ import annotations

from tvm import tirx
from tvm.s_tir import Schedule

from kope_tvm.schedules.heads import heads
from kope_tvm.schedules.vectors import is_x86
from kope_tvm.target import TargetSpec


def schedule(func: tirx.PrimFunc, target: TargetSpec) -> list[Schedule]:
    """What `heads` makes of the function."""
    return heads(func, target) if is_x86(target) else []
