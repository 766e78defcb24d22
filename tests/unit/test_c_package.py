# SPDX-License-Identifier: Apache-2.0
"""Parts of a C library that need no compiler: names, memory, example inputs."""

from __future__ import annotations

import numpy as np
import pytest

from kope_tvm.c_package.arena import Lifetime, planned
from kope_tvm.c_package.identifier import identifier, identifiers
from kope_tvm.c_package.plan import c_type, num_bytes
from kope_tvm.errors import UsageError
from kope_tvm.evidence import example_input
from kope_tvm.tensor_spec import TensorSpec


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("A", "A"),
        ("input.1", "input_1"),
        ("/conv1/Conv_output_0", "conv1_Conv_output_0"),
        ("0", "x_0"),
        ("int", "x_int"),
        ("new", "x_new"),
        ("kope_params", "x_kope_params"),
        ("größe", "gr_e"),
        ("", "x"),
    ],
)
def test_any_name_becomes_an_identifier(name: str, expected: str) -> None:
    assert identifier(name) == expected


def test_names_that_become_the_same_are_told_apart() -> None:
    assert identifiers(["a.b", "a/b", "a_b", "c"]) == ("a_b", "a_b_2", "a_b_3", "c")


def test_a_chain_of_tensors_needs_two_places() -> None:
    chain = [Lifetime(100, i, i + 1) for i in range(5)]
    arena = planned(chain)
    assert arena.size == 256
    assert arena.offsets == (0, 128, 0, 128, 0)


def test_tensors_that_live_at_once_do_not_overlap() -> None:
    arena = planned([Lifetime(64, 0, 3), Lifetime(65, 0, 1), Lifetime(64, 2, 3)])
    assert arena.offsets == (128, 0, 0)
    assert arena.size == 192


def test_nothing_needs_no_memory() -> None:
    assert planned([]).size == 0


def test_sizes_follow_the_dtype() -> None:
    assert num_bytes(TensorSpec("x", (3, 5), "float16")) == 30
    assert num_bytes(TensorSpec("x", (), "int64")) == 8


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (TensorSpec("x", (4,), "int4"), "x [4] int4: is of int4, which C cannot hold"),
        (TensorSpec("x", (-1,), "int8"), "x [-1] int8: has a symbolic shape"),
    ],
)
def test_what_c_cannot_hold_is_refused_by_name(spec: TensorSpec, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        c_type(spec)
    assert str(caught.value).startswith(message)


def test_example_floats_are_exact_in_half_precision() -> None:
    wide = example_input(TensorSpec("x", (40, 25), "float32"), 1)
    half = example_input(TensorSpec("x", (40, 25), "float16"), 1)
    assert np.array_equal(wide, half.astype(np.float32))
    assert np.array_equal(wide * 128, np.round(wide * 128))
    assert float(np.abs(wide).max()) <= 1
    assert len(np.unique(wide)) > 200


def test_example_inputs_differ_and_integers_are_indices() -> None:
    spec = TensorSpec("x", (64,), "float32")
    assert not np.array_equal(example_input(spec, 0), example_input(spec, 1))
    assert set(example_input(TensorSpec("x", (64,), "int32"), 0)) == {0, 1}
    assert example_input(TensorSpec("x", (999,), "int8"), 0).min() < -100
