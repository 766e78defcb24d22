# SPDX-License-Identifier: Apache-2.0
"""Elementwise chains, broadcasts and transposes on NVIDIA GPUs."""

from __future__ import annotations

from tvm import tirx
from tvm.s_tir import Schedule

from kope_tvm.schedules.grid import is_cuda
from kope_tvm.schedules.grid_nests import nests
from kope_tvm.target import TargetSpec


def schedule(func: tirx.PrimFunc, target: TargetSpec) -> list[Schedule]:
    """One kernel an output."""
    return nests(func, target.facts) if is_cuda(target) else []
