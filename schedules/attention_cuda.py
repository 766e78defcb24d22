# SPDX-License-Identifier: Apache-2.0
"""Attention whose keys come in parts, on NVIDIA GPUs."""

from __future__ import annotations

from tvm import tirx
from tvm.s_tir import Schedule

from kope_tvm.schedules.grid import is_cuda
from kope_tvm.schedules.grid_attention import attention
from kope_tvm.target import TargetSpec


def schedule(func: tirx.PrimFunc, target: TargetSpec) -> list[Schedule]:
    """Both products and the softmax between them in one kernel."""
    return attention(func, target.facts) if is_cuda(target) else []
