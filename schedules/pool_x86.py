# SPDX-License-Identifier: Apache-2.0
"""Pooling windows on x86 vectors."""

from __future__ import annotations

from tvm import tirx
from tvm.s_tir import Schedule

from kope_tvm.schedules.pool import windows
from kope_tvm.schedules.vectors import is_x86
from kope_tvm.target import TargetSpec


def schedule(func: tirx.PrimFunc, target: TargetSpec) -> list[Schedule]:
    """What `pool` makes of the function, one register a vector."""
    return windows(func, target) if is_x86(target) else []
