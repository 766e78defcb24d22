# SPDX-License-Identifier: Apache-2.0
"""Reductions: what combines two partial results, and what changes neither.

TVM takes a reduction apart (rfactor) where it knows the reducer; MLIR's maxima of floats are not
among those that it comes with.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import te, tirx

from kope_tvm.mlir import scalars
from kope_tvm.mlir.scalars import Expr


@dataclass(frozen=True)
class Combiner:
    """A commutative operation and its identity."""

    combine: Callable[[Expr, Expr], Expr]
    identity: Callable[[str], Expr]
    """From a dtype."""


def _all_ones(dtype: str) -> Expr:
    return tirx.const(True, dtype) if dtype == "bool" else tirx.const(-1, dtype)


def _number(value: float) -> Callable[[str], Expr]:
    return lambda dtype: tirx.const(value, dtype)


def _least(dtype: str) -> Expr:
    return tirx.min_value(dtype)


def _most(dtype: str) -> Expr:
    return tirx.max_value(dtype)


_LOW, _HIGH = _number(float("-inf")), _number(float("inf"))
_IDENTITIES: dict[str, Callable[[str], Expr]] = {
    "arith.addf": _number(0),
    "arith.addi": _number(0),
    "arith.mulf": _number(1),
    "arith.muli": _number(1),
    "arith.maximumf": _LOW,
    "arith.maxnumf": _LOW,
    "arith.minimumf": _HIGH,
    "arith.minnumf": _HIGH,
    "arith.maxsi": _least,
    "arith.minsi": _most,
    "arith.maxui": _number(0),
    "arith.minui": _all_ones,
    "arith.andi": _all_ones,
    "arith.ori": _number(0),
    "arith.xori": _number(0),
}
COMBINERS = {
    name: Combiner(scalars.OPERATIONS[name], identity) for name, identity in _IDENTITIES.items()
}
"""By the name of the operation that ends a reduction's body."""


def reduced(combiner: Combiner, start: Expr, source: Expr, axes: list[te.IterVar]) -> Expr:
    """The reduction of `source` over `axes` that starts from the constant `start`."""

    def combine(left: Expr, right: Expr) -> Expr:  # TVM counts its arguments: two and no more.
        return combiner.combine(left, right)

    reducer = te.comm_reducer(combine, lambda _: start)
    return reducer(source, axis=axes)


_FLOATS: tuple[tuple[Callable[[Expr, Expr], Expr], tuple[Callable[[str], Expr], ...]], ...] = (
    (scalars.largest, (_LOW, _least)),
    (scalars.largest_number, (_LOW, _least)),
    (scalars.smallest, (_HIGH, _most)),
    (scalars.smallest_number, (_HIGH, _most)),
    # With a start that TVM's own maximum, which starts from the least finite number, has not.
    (tirx.max, (_LOW,)),
    (tirx.min, (_HIGH,)),
)


def register_reducers() -> None:
    """Make TVM know the reducers that imported functions have; once a process."""
    register = tvm_ffi.get_global_func("s_tir.schedule.RegisterReducer")
    for combine, identities in _FLOATS:
        for identity in identities:
            register(1, _kept(_on_lists(combine)), _kept(_of_values(identity)))


def _on_lists(combine: Callable[[Expr, Expr], Expr]) -> Callable[..., list[Expr]]:
    return lambda left, right: [combine(left[0], right[0])]


def _of_values(identity: Callable[[str], Expr]) -> Callable[..., list[Expr]]:
    return lambda values: [identity(scalars.dtype(values[0]))]


def _kept(function: Callable[..., Any]) -> Any:
    """A function for TVM's registry, which outlives Python: it must never be the last to let go."""
    made = tvm_ffi.convert(function)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(made))
    return made


register_reducers()
