# SPDX-License-Identifier: Apache-2.0
"""Reductions over leading axes, and of everything, on NVIDIA GPUs."""

from __future__ import annotations

from tvm import tirx
from tvm.s_tir import Schedule

from kope_tvm.schedules.grid import is_cuda
from kope_tvm.schedules.grid_sums import sums
from kope_tvm.target import TargetSpec


def schedule(func: tirx.PrimFunc, target: TargetSpec) -> list[Schedule]:
    """What rows of contiguous columns are not."""
    return sums(func, target.facts) if is_cuda(target) else []
