# SPDX-License-Identifier: Apache-2.0
"""Integer expressions as Python functions of their variables' values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import ir, tirx

Valuation = Callable[[dict[Any, Any]], Any]
"""The value of an expression given its variables; None where that is unknown."""

_OPERATORS: dict[Any, Callable[[Any, Any], Any]] = {
    tirx.Add: lambda a, b: a + b,
    tirx.Sub: lambda a, b: a - b,
    tirx.Mul: lambda a, b: a * b,
    tirx.FloorDiv: lambda a, b: a // b,
    tirx.FloorMod: lambda a, b: a % b,
    tirx.Div: lambda a, b: a // b,
    tirx.Mod: lambda a, b: a % b,
    tirx.LT: lambda a, b: a < b,
    tirx.LE: lambda a, b: a <= b,
    tirx.GT: lambda a, b: a > b,
    tirx.GE: lambda a, b: a >= b,
    tirx.EQ: lambda a, b: a == b,
    tirx.NE: lambda a, b: a != b,
}


def shifted(low: Any, index: Any) -> Any:
    if low is None or index is None:
        return None
    if isinstance(index, range):
        return range(low + index.start, low + index.stop, index.step)
    return low + index


def valuation_of(expr: Any) -> Valuation:
    if isinstance(expr, tirx.IntImm):
        constant = int(expr.value)
        return lambda values: constant
    if isinstance(expr, ir.Var):
        return lambda values: values.get(expr)
    if isinstance(expr, tirx.Cast | tirx.Broadcast):
        return valuation_of(expr.value)
    if isinstance(expr, tirx.Ramp):
        return _ramp(valuation_of(expr.base), valuation_of(expr.stride), int(expr.lanes))
    if isinstance(expr, tirx.And | tirx.Or | tirx.Not):
        return _logic(expr)
    if isinstance(expr, ir.Call) and str(expr.op.name) == "tirx.likely":
        return valuation_of(expr.args[0])
    operator = _OPERATORS.get(type(expr))
    if operator is None:
        return lambda values: None
    return _binary(operator, valuation_of(expr.a), valuation_of(expr.b))


def _binary(operator: Callable[[Any, Any], Any], left: Valuation, right: Valuation) -> Valuation:
    def value(values: dict[Any, Any]) -> Any:
        a, b = left(values), right(values)
        return None if a is None or b is None else operator(a, b)

    return value


def _logic(expr: Any) -> Valuation:
    left = valuation_of(expr.a)
    if isinstance(expr, tirx.Not):
        return lambda values: None if (one := left(values)) is None else not one
    right = valuation_of(expr.b)
    decisive = isinstance(expr, tirx.Or)

    def value(values: dict[Any, Any]) -> Any:
        both = (left(values), right(values))
        if any(one is not None and bool(one) == decisive for one in both):
            return decisive
        return None if None in both else not decisive

    return value


def _ramp(base: Valuation, stride: Valuation, lanes: int) -> Valuation:
    def value(values: dict[Any, Any]) -> Any:
        start, step = base(values), stride(values)
        if start is None or not step:
            return None
        return range(start, start + lanes * step, step)

    return value
