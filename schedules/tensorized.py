# SPDX-License-Identifier: Apache-2.0
"""Registers every tensor intrinsic of kope's: a trace that names one replays only after that."""

from __future__ import annotations

from kope_tvm.quick_stack import quick_stack

with quick_stack():
    from kope_tvm.schedules import block_dots, largest, nibbles, sums, vmadot, widening

__all__ = ["block_dots", "largest", "nibbles", "sums", "vmadot", "widening"]
