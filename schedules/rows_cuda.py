# SPDX-License-Identifier: Apache-2.0
"""Softmax, norms, reductions and losses on NVIDIA GPUs: one pass over device memory."""

from __future__ import annotations

from tvm import tirx
from tvm.s_tir import Schedule

from kope_tvm.schedules.grid import is_cuda
from kope_tvm.schedules.grid_rows import along_columns
from kope_tvm.target import TargetSpec


def schedule(func: tirx.PrimFunc, target: TargetSpec) -> list[Schedule]:
    """Rows in registers, by the warp or by the block."""
    return along_columns(func, target.facts) if is_cuda(target) else []
