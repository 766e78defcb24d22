# SPDX-License-Identifier: Apache-2.0
"""NCHW convolutions on RISC-V vectors."""

from __future__ import annotations

from tvm import tirx
from tvm.s_tir import Schedule

from kope_tvm.schedules.convolution import convolutions
from kope_tvm.schedules.vectors import by_groups
from kope_tvm.target import TargetSpec


def schedule(func: tirx.PrimFunc, target: TargetSpec) -> list[Schedule]:
    """What `convolution` makes of the function, with registers in groups of each size."""
    return by_groups(convolutions, func, target)
