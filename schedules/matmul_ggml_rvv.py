# SPDX-License-Identifier: Apache-2.0
"""Products with weights in ggml's blocks on RISC-V vectors."""

from __future__ import annotations

from tvm import tirx
from tvm.s_tir import Schedule

from kope_tvm.schedules.block_products import block_products
from kope_tvm.schedules.vectors import is_rvv
from kope_tvm.target import TargetSpec


def schedule(func: tirx.PrimFunc, target: TargetSpec) -> list[Schedule]:
    """What `block_products` makes of the function; the machine's features choose how."""
    return block_products(func, target) if is_rvv(target) else []
