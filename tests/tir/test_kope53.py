# SPDX-License-Identifier: Apache-2.0
"""The operators of suite kope53: one function for TVM, ONNX Runtime and numpy, and no trivial one.

Sizes are scaled down; what they are in the suite is checked by the bench itself before it tunes.
"""

from __future__ import annotations

import numpy as np
import pytest
import tvm

from kope_tvm.bench.inputs import operator_inputs
from kope_tvm.bench.sanity import faults
from kope_tvm.bench.suites.kope53 import OPERATORS
from kope_tvm.comparison import compare
from kope_tvm.onnx_reference import OnnxReference
from kope_tvm.operators import known_operators, parse_operator
from kope_tvm.operators.operator import BoundOperator, Operator

_KEPT = 16
"""Sizes up to here stay: kernels, strides, groups and counts."""
_KEPT_NAMES = frozenset({"groups", "ci", "co", "d"})
NAMES = sorted({spec.split(":")[1] for spec in OPERATORS} | {"heat3d", "resize_nearest"})


def scaled(operator: Operator) -> BoundOperator:
    """The operator at an eighth of its usual extents, whole blocks of 32."""
    sizes = {
        name: size if size <= _KEPT or name in _KEPT_NAMES else max(32, size // 8 // 32 * 32)
        for name, size in operator.sizes.items()
    }
    return operator.bind(**sizes)


def test_there_are_53_and_no_two_are_the_same() -> None:
    assert len({parse_operator(spec).spec for spec in OPERATORS}) == len(OPERATORS) == 53


@pytest.mark.parametrize("name", NAMES)
def test_a_program_that_does_nothing_or_half_fails(name: str) -> None:
    assert faults(scaled(known_operators()[name])) == []


@pytest.mark.parametrize("name", NAMES)
def test_tvm_and_onnx_runtime_compute_what_numpy_does(name: str) -> None:
    bound = scaled(known_operators()[name])
    inputs = operator_inputs(bound)
    right = np.asarray(bound.reference(*inputs.values()), bound.output.dtype)
    assert compare([_by_tvm(bound, inputs)], [right]).ok
    if bound.operator.nodes(bound.parameters):
        (other,) = OnnxReference(bound.onnx(), 1, optimised=False).run(inputs)[:1]
        assert compare([other], [right]).ok


def _by_tvm(bound: BoundOperator, inputs: dict[str, np.ndarray]) -> np.ndarray:
    library = tvm.compile(bound.tir(), target="llvm")
    out = tvm.runtime.tensor(np.zeros(bound.output.shape, bound.output.dtype))
    library(*(tvm.runtime.tensor(np.ascontiguousarray(one)) for one in inputs.values()), out)
    found: np.ndarray = out.numpy()
    return found
