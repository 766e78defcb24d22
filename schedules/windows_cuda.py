# SPDX-License-Identifier: Apache-2.0
"""Pooling, depthwise convolutions and other small windows on NVIDIA GPUs."""

from __future__ import annotations

from tvm import tirx
from tvm.s_tir import Schedule

from kope_tvm.schedules.grid import is_cuda
from kope_tvm.schedules.grid_windows import windows
from kope_tvm.target import TargetSpec


def schedule(func: tirx.PrimFunc, target: TargetSpec) -> list[Schedule]:
    """A thread a few neighbouring results."""
    return windows(func) if is_cuda(target) else []
