# SPDX-License-Identifier: Apache-2.0
"""Comparing outputs: what passes, what fails and which place is named."""

from __future__ import annotations

import numpy as np
import pytest

from kope_tvm.comparison import compare, random_inputs
from kope_tvm.tensor_spec import TensorSpec

REFERENCE = np.array([[1.0, -2.0], [4.0, np.nan]], np.float32)


def test_equal_outputs_pass_with_nan_in_the_same_place() -> None:
    found = compare([REFERENCE.copy()], [REFERENCE])
    assert (found.ok, found.max_abs, found.where) == (True, 0.0, "")


def test_worst_place_is_named() -> None:
    output = REFERENCE.copy()
    output[0, 1] += 1.0
    found = compare([REFERENCE, output], [REFERENCE, REFERENCE])
    assert (found.ok, found.max_abs, found.max_rel) == (False, 1.0, 0.25)
    assert found.where == "output 1 [0, 1]"


@pytest.mark.parametrize("value", [0.0, np.inf])
def test_nan_must_stay_nan(value: float) -> None:
    output = np.nan_to_num(REFERENCE, nan=value, posinf=value)
    assert not compare([output], [REFERENCE]).ok


def test_zeros_do_not_pass_for_small_values() -> None:
    tiny = np.full(8, 1e-9, np.float32)
    assert not compare([np.zeros_like(tiny)], [tiny]).ok


def test_integers_are_exact() -> None:
    reference = np.array([2**31 - 1, 5], np.int32)
    assert not compare([reference - np.array([0, 1], np.int32)], [reference]).ok


@pytest.mark.parametrize(
    ("output", "where"),
    [
        (np.zeros((2, 3), np.float32), "output 0: float32[2, 3] for float32[2, 2]"),
        (np.zeros((2, 2), np.float64), "output 0: float64[2, 2] for float32[2, 2]"),
    ],
)
def test_another_shape_or_dtype_fails(output: np.ndarray, where: str) -> None:
    found = compare([output], [REFERENCE])
    assert (found.ok, found.where) == (False, where)


def test_missing_output_fails() -> None:
    assert compare([], [REFERENCE]).where == "0 outputs for 1"


def test_random_inputs_are_the_seeds_and_fit_the_specs() -> None:
    specs = (TensorSpec("x", (64,), "float32"), TensorSpec("i", (64,), "int64"))
    first, again, other = (random_inputs(specs, seed) for seed in (1, 1, 2))
    assert np.array_equal(first["x"], again["x"])
    assert not np.array_equal(first["x"], other["x"])
    assert {"x": first["x"].dtype.name, "i": first["i"].dtype.name} == {
        "x": "float32",
        "i": "int64",
    }
    assert set(np.unique(first["i"])) == {0, 1}
