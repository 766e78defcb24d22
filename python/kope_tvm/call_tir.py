# SPDX-License-Identifier: Apache-2.0
"""Relax's calls of PrimFuncs."""

from __future__ import annotations

from typing import Any

from tvm import ir


def called_name(expr: Any) -> str:
    """The PrimFunc that a `call_tir` calls; empty of any other expression."""
    is_call = isinstance(expr, ir.Call) and expr.op == ir.Op.get("relax.call_tir")
    return str(expr.args[0].name_hint) if is_call else ""
