# SPDX-License-Identifier: Apache-2.0
"""Products with 4-bit weights on RISC-V vectors."""

from __future__ import annotations

from tvm import tirx
from tvm.s_tir import Schedule

from kope_tvm.schedules.vectors import is_rvv
from kope_tvm.schedules.weights import packed_products
from kope_tvm.target import TargetSpec


def schedule(func: tirx.PrimFunc, target: TargetSpec) -> list[Schedule]:
    """What `weights` makes of the function; a block of weights says how wide vectors are."""
    return packed_products(func, target) if is_rvv(target) else []
