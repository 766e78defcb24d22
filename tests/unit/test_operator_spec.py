# SPDX-License-Identifier: Apache-2.0
"""Operator specs: what they name, what they default to, and what is said of a wrong one."""

from __future__ import annotations

import numpy as np
import pytest

from kope_tvm.errors import ModelError
from kope_tvm.operators import QUICK_SUITE, known_operators, parse_operator


def test_spec_names_operator_and_sizes() -> None:
    bound = parse_operator("op:matmul:m=8,n=16,k=4")
    assert [str(spec) for spec in bound.inputs] == ["A [8, 4] float32", "B [4, 16] float32"]
    assert (bound.output.shape, bound.output.dtype) == ((8, 16), "float32")
    assert bound.spec == "op:matmul:m=8,n=16,k=4,dtype=float32"


def test_parameters_left_out_have_their_defaults() -> None:
    assert parse_operator("op:softmax").spec == "op:softmax:m=512,n=1024,dtype=float32"


@pytest.mark.parametrize("spec", QUICK_SUITE)
def test_quick_suite_spells_every_parameter(spec: str) -> None:
    assert parse_operator(spec).spec == spec


def test_quick_suite_holds_twelve_operators() -> None:
    assert len(set(QUICK_SUITE)) == 12


@pytest.mark.parametrize("name", known_operators())
def test_prim_func_takes_the_inputs_and_then_the_output(name: str) -> None:
    bound = parse_operator(f"op:{name}")
    params = bound.tir()["main"].params
    shapes = [tuple(int(extent) for extent in param.shape) for param in params]
    assert shapes == [*(spec.shape for spec in bound.inputs), bound.output.shape]
    assert [param.name for param in params][:-1] == [spec.name for spec in bound.inputs]


@pytest.mark.parametrize(
    ("spec", "shape"),
    [
        ("op:conv2d:n=1,ci=64,h=56,w=56,co=64,kernel=3,stride=1,pad=1", (1, 64, 56, 56)),
        ("op:depthwise_conv2d:n=1,ci=32,h=112,w=112,stride=2", (1, 32, 56, 56)),
        ("op:reduce_sum:m=10,n=20", (10,)),
    ],
)
def test_output_shape(spec: str, shape: tuple[int, ...]) -> None:
    assert parse_operator(spec).output.shape == shape


def test_int8_product_is_exact_in_int32() -> None:
    bound = parse_operator("op:matmul_int8:m=1,n=1,k=512")
    product = bound.reference(np.full((1, 512), -128, np.int8), np.full((512, 1), -128, np.int8))
    assert bound.output.dtype == "int32"
    assert product.tolist() == [[128 * 128 * 512]]


def test_depthwise_reference_keeps_channels_apart() -> None:
    bound = parse_operator("op:depthwise_conv2d:ci=2,h=3,w=3,stride=1,pad=0")
    data = np.stack([np.ones((3, 3)), np.full((3, 3), 10)])[None].astype(np.float32)
    weight = np.ones((2, 1, 3, 3), np.float32)
    assert bound.reference(data, weight).ravel().tolist() == [9.0, 90.0]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            "op:matmull",
            f"unknown operator 'matmull'; known operators: {', '.join(known_operators())}",
        ),
        (
            "op:matmul:q=3",
            "unknown parameter 'q' of operator 'matmul'; expected m=512,n=512,k=512,dtype=float32",
        ),
        (
            "op:matmul:m",
            "parameter 'm' of operator 'matmul' is not of the form NAME=VALUE; "
            "expected m=512,n=512,k=512,dtype=float32",
        ),
        (
            "op:matmul:m=1,m=2",
            "parameter 'm=2' of operator 'matmul' is given twice; "
            "expected m=512,n=512,k=512,dtype=float32",
        ),
        ("op:matmul:m=0", "m=0 of operator 'matmul'; expected an integer of at least 1"),
        ("op:matmul:m=-4", "m=-4 of operator 'matmul'; expected an integer of at least 1"),
        ("op:matmul:m=1.5", "m=1.5 of operator 'matmul'; expected an integer of at least 1"),
        ("op:conv2d:pad=-1", "pad=-1 of operator 'conv2d'; expected an integer of at least 0"),
        (
            "op:matmul:dtype=float31",
            "dtype 'float31' of operator 'matmul'; expected one of float32, float16",
        ),
    ],
)
def test_wrong_spec_is_refused_with_what_was_expected(spec: str, message: str) -> None:
    with pytest.raises(ModelError) as caught:
        parse_operator(spec)
    assert str(caught.value) == message


def test_convolution_without_output_is_refused() -> None:
    with pytest.raises(ModelError, match=r"kernel=3,stride=1,pad=0,dtype=float32 has no output"):
        parse_operator("op:conv2d:h=2,w=2,pad=0").tir()
