# SPDX-License-Identifier: Apache-2.0
"""Scalar operations of `arith` and `math` as TIR expressions of the same meaning.

NaNs are MLIR's: `maximumf` hands one on unless its flags rule them out, `maxnumf` prefers the
other operand. TIR compares ordered, so that even its `!=` is false for a NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import tirx

Expr = Any
"""A TIR expression."""


def dtype(expr: Expr) -> str:
    """The dtype of an expression."""
    return str(expr.ty.dtype)


def largest(left: Expr, right: Expr) -> Expr:
    """`maximumf`: NaN where either operand is."""
    return tirx.Select(tirx.any(left > right, tirx.isnan(left)), left, right)


def smallest(left: Expr, right: Expr) -> Expr:
    """`minimumf`: NaN where either operand is."""
    return tirx.Select(tirx.any(left < right, tirx.isnan(left)), left, right)


def largest_number(left: Expr, right: Expr) -> Expr:
    """`maxnumf`: NaN where both operands are."""
    return tirx.Select(tirx.any(left > right, tirx.isnan(right)), left, right)


def smallest_number(left: Expr, right: Expr) -> Expr:
    """`minnumf`: NaN where both operands are."""
    return tirx.Select(tirx.any(left < right, tirx.isnan(right)), left, right)


def signed(expr: Expr) -> Expr:
    """An `i1` as a number: its only bit is the sign."""
    return -expr.astype("int8") if dtype(expr) == "bool" else expr


def unsigned(expr: Expr) -> Expr:
    """The same bits as a number without a sign."""
    name = dtype(expr)
    return expr if name == "bool" else expr.astype(f"u{name}")


def _on_unsigned(operation: Callable[..., Expr]) -> Callable[..., Expr]:
    def apply(*operands: Expr) -> Expr:
        found = operation(*(unsigned(each) for each in operands))
        return found.astype(dtype(operands[0]))

    return apply


def _bitwise(on_bools: Callable[..., Expr], on_numbers: Callable[..., Expr]) -> Callable[..., Expr]:
    def apply(left: Expr, right: Expr) -> Expr:
        return (on_bools if dtype(left) == "bool" else on_numbers)(left, right)

    return apply


def _differ(left: Expr, right: Expr) -> Expr:
    return tirx.any(tirx.all(left, tirx.Not(right)), tirx.all(right, tirx.Not(left)))


_ARITH: dict[str, Callable[..., Expr]] = {
    "addf": lambda a, b: a + b,
    "addi": lambda a, b: a + b,
    "subf": lambda a, b: a - b,
    "subi": lambda a, b: a - b,
    "mulf": lambda a, b: a * b,
    "muli": lambda a, b: a * b,
    "divf": tirx.div,
    "divsi": tirx.truncdiv,
    "divui": _on_unsigned(tirx.truncdiv),
    "floordivsi": tirx.floordiv,
    "ceildivsi": tirx.ceildiv,
    "remf": tirx.fmod,
    "remsi": tirx.truncmod,
    "remui": _on_unsigned(tirx.truncmod),
    "negf": lambda a: -a,
    "maximumf": largest,
    "minimumf": smallest,
    "maxnumf": largest_number,
    "minnumf": smallest_number,
    "maxsi": tirx.max,
    "minsi": tirx.min,
    "maxui": _on_unsigned(tirx.max),
    "minui": _on_unsigned(tirx.min),
    "andi": _bitwise(tirx.all, tirx.bitwise_and),
    "ori": _bitwise(tirx.any, tirx.bitwise_or),
    "xori": _bitwise(_differ, tirx.bitwise_xor),
    "shli": tirx.shift_left,
    "shrsi": tirx.shift_right,
    "shrui": _on_unsigned(tirx.shift_right),
    "select": tirx.Select,
}
_MATH: dict[str, Callable[..., Expr]] = {
    "absf": tirx.abs,
    "absi": tirx.abs,
    "ceil": tirx.ceil,
    "exp": tirx.exp,
    "exp2": tirx.exp2,
    "fma": lambda a, b, c: a * b + c,
    "floor": tirx.floor,
    "log": tirx.log,
    "log1p": tirx.log1p,
    "log2": tirx.log2,
    "log10": tirx.log10,
    "powf": tirx.power,
    "roundeven": tirx.nearbyint,
    "rsqrt": lambda a: tirx.const(1, dtype(a)) / tirx.sqrt(a),
    "trunc": tirx.trunc,
    **{
        name: getattr(tirx, name)
        for name in (
            *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "copysign", "cos"),
            *("cosh", "erf", "sin", "sinh", "sqrt", "tan", "tanh"),
        )
    },
}
OPERATIONS = {
    **{f"arith.{name}": made for name, made in _ARITH.items()},
    **{f"math.{name}": made for name, made in _MATH.items()},
}
"""What needs its operands only."""

WITHOUT_NANS = {
    "arith.maximumf": tirx.max,
    "arith.maxnumf": tirx.max,
    "arith.minimumf": tirx.min,
    "arith.minnumf": tirx.min,
}
"""What stands for them under `fastmath<nnan>`."""

_PLAIN_CASTS = ("extf", "truncf", "fptosi", "trunci", "index_cast", "extsi", "sitofp")
_UNSIGNED_CASTS = ("extui", "uitofp", "index_castui")
CASTS: dict[str, Callable[[Expr, str], Expr]] = {
    **{f"arith.{name}": lambda a, to: signed(a).astype(to) for name in _PLAIN_CASTS},
    **{f"arith.{name}": lambda a, to: unsigned(a).astype(to) for name in _UNSIGNED_CASTS},
    "arith.fptoui": lambda a, to: a.astype(f"u{to}").astype(to),
    "arith.bitcast": lambda a, to: tirx.reinterpret(to, a),
}
"""What needs the dtype of its result too."""

_SIGNED = (
    *(lambda a, b: tirx.EQ(a, b), lambda a, b: tirx.NE(a, b)),
    *(lambda a, b: a < b, lambda a, b: a <= b, lambda a, b: a > b, lambda a, b: a >= b),
)
"""In the order of `arith.cmpi`'s predicates, then the last four without a sign."""


def compare_integers(predicate: int, left: Expr, right: Expr) -> Expr:
    """`arith.cmpi`."""
    if predicate < len(_SIGNED):
        return _SIGNED[predicate](signed(left), signed(right))
    return _SIGNED[predicate - 4](unsigned(left), unsigned(right))


_ALWAYS, _ORDERED, _UNORDERED = 15, 7, 14
_ORDERED_WAYS: tuple[Callable[[Expr, Expr], Expr], ...] = (
    *(lambda a, b: tirx.EQ(a, b), lambda a, b: a > b, lambda a, b: a >= b),
    *(lambda a, b: a < b, lambda a, b: a <= b, lambda a, b: tirx.any(a < b, a > b)),
)


def compare_floats(predicate: int, left: Expr, right: Expr) -> Expr:
    """`arith.cmpf`: predicates 1 to 6 are ordered, 8 to 13 the same or unordered."""
    unordered = tirx.any(tirx.isnan(left), tirx.isnan(right))
    if predicate in (0, _ALWAYS):
        return tirx.const(predicate == _ALWAYS, "bool")
    if predicate == _ORDERED:
        return tirx.all(tirx.Not(tirx.isnan(left)), tirx.Not(tirx.isnan(right)))
    if predicate == _UNORDERED:
        return unordered
    ordered = _ORDERED_WAYS[(predicate - 1) % _ORDERED](left, right)
    return ordered if predicate < _ORDERED else tirx.any(ordered, unordered)


COMPARISONS = {"arith.cmpf": compare_floats, "arith.cmpi": compare_integers}
"""What needs a predicate before its operands."""
