# SPDX-License-Identifier: Apache-2.0
"""Chains of elementwise, broadcast and layout operations on x86 vectors."""

from __future__ import annotations

from tvm import tirx
from tvm.s_tir import Schedule

from kope_tvm.schedules.elementwise import nests
from kope_tvm.schedules.vectors import is_x86
from kope_tvm.target import TargetSpec


def schedule(func: tirx.PrimFunc, target: TargetSpec) -> list[Schedule]:
    """What `elementwise` makes of the function, one register a vector."""
    return nests(func, target) if is_x86(target) else []
