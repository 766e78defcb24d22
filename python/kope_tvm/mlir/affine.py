# SPDX-License-Identifier: Apache-2.0
"""Affine expressions of indexing maps as TIR expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tvm import tirx

from kope_tvm.mlir.bindings import ir
from kope_tvm.mlir.scalars import Expr

_WAYS: tuple[tuple[type, Callable[[Expr, Expr], Expr]], ...] = (
    (ir.AffineAddExpr, lambda a, b: a + b),
    (ir.AffineMulExpr, lambda a, b: a * b),
    (ir.AffineFloorDivExpr, tirx.floordiv),
    (ir.AffineCeilDivExpr, tirx.ceildiv),
    (ir.AffineModExpr, tirx.floormod),
)


def applied(expr: ir.AffineExpr, dims: Mapping[int, Expr]) -> Expr:
    """The expression of these dimensions."""
    if isinstance(expr, ir.AffineDimExpr):
        return dims[expr.position]
    if isinstance(expr, ir.AffineConstantExpr):
        return tirx.const(expr.value, "int32")
    way = next(way for kind, way in _WAYS if isinstance(expr, kind))
    return way(applied(expr.lhs, dims), applied(expr.rhs, dims))


def position(expr: ir.AffineExpr) -> int:
    """The dimension that the expression is; -1 where it is more than one."""
    return int(expr.position) if isinstance(expr, ir.AffineDimExpr) else -1
