# SPDX-License-Identifier: Apache-2.0
"""Whether an operator can tell a right program from one that does nothing.

A task that zeros, a constant, a copy of an input or a program deaf to one of its inputs would pass
is refused, not the program.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from kope_tvm.bench.inputs import operator_inputs
from kope_tvm.comparison import compare
from kope_tvm.operators.operator import BoundOperator

_LEAST_SPREAD = 1e-2
"""Of the outputs, as a share of the largest: every tolerance here is relative to that."""
_SEEDS = (0, 1)

Array = np.ndarray[Any, Any]


def faults(bound: BoundOperator) -> list[str]:
    """Why the operator is no test of a program; empty where it is one."""
    inputs = operator_inputs(bound, _SEEDS[0])
    right = np.asarray(bound.reference(*inputs.values()))
    return [
        *_of_numbers(right),
        *(f"{cheat} would pass" for cheat, out in _cheats(inputs, right) if _passes(out, right)),
        *(f"input {name} does not matter" for name in _unused(bound, inputs, right)),
    ]


def _of_numbers(right: Array) -> Iterator[str]:
    numbers = right.astype(np.float64)
    if not np.isfinite(numbers).all():
        yield "its outputs are not finite"
        return
    reach = float(np.abs(numbers).max(initial=0.0))
    if reach == 0.0:
        yield "its outputs are zeros"
    if right.size > 1 and float(numbers.std()) < _LEAST_SPREAD * reach:
        yield f"its outputs vary by {float(numbers.std()):.2g} only"


def _cheats(inputs: Mapping[str, Array], right: Array) -> Iterator[tuple[str, Array]]:
    yield "zeros", np.zeros_like(right)
    mean = right.astype(np.float64).mean() if right.size else 0.0
    yield "the mean", np.full_like(right, mean)
    for name, one in inputs.items():
        if one.size >= right.size:
            copied = one.reshape(-1)[: right.size].reshape(right.shape)
            yield f"a copy of {name}", copied.astype(right.dtype)


def _passes(out: Array, right: Array) -> bool:
    return compare([out], [right]).ok


def _unused(bound: BoundOperator, inputs: Mapping[str, Array], right: Array) -> Iterator[str]:
    """Inputs that another draw of leaves the output as it is."""
    others = operator_inputs(bound, _SEEDS[1])
    for name in inputs:
        changed = {**inputs, name: others[name]}
        if _passes(np.asarray(bound.reference(*changed.values())), right):
            yield name
