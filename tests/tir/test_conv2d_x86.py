# SPDX-License-Identifier: Apache-2.0
"""The x86 convolution rule: what it takes, what it computes, and that its traces replay."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from rule_checks import (
    AVX2,
    AVX512,
    RVV,
    Array,
    assert_right,
    elementwise_func,
    fused,
    hardswish,
    row_max_func,
    tensor,
)
from tvm import relax, tirx

from kope_tvm.operators import parse_operator
from kope_tvm.schedules.analysis import analyse
from kope_tvm.schedules.contraction import rows_with_rest
from kope_tvm.schedules.conv import conv_of
from kope_tvm.schedules.conv2d_x86 import schedule

op = relax.op
Shape = tuple[int, int, int, int]


def conv(x: Array, w: Array, stride: int, pad: int) -> Array:
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, w.shape[2:], axis=(2, 3))
    out: Array = np.einsum("ncyxij,ocij->noyx", windows[:, :, ::stride, ::stride], w)
    return out


def conv_func(x: Shape, w: Shape, stride: int, pad: int, groups: int = 1) -> tirx.PrimFunc:
    data, weight = tensor("x", *x), tensor("w", *w)
    out = op.nn.conv2d(data, weight, strides=stride, padding=pad, groups=groups)
    return fused([data, weight], out)


CASES: list[tuple[Shape, Shape, int, int]] = [
    ((1, 8, 14, 14), (16, 8, 3, 3), 1, 1),
    ((1, 5, 13, 17), (24, 5, 3, 3), 2, 1),
    ((1, 3, 12, 20), (10, 3, 5, 5), 1, 2),
    ((2, 8, 7, 7), (16, 8, 1, 1), 1, 0),
    ((1, 8, 6, 16), (24, 8, 1, 1), 1, 0),
    ((1, 8, 14, 14), (16, 8, 1, 1), 2, 0),
    ((1, 12, 1, 1), (20, 12, 1, 1), 1, 0),
    ((1, 3, 2, 5), (4, 3, 3, 3), 1, 1),
    ((1, 3, 5, 17), (45, 3, 3, 3), 1, 1),
    ((2, 4, 3, 38), (32, 4, 3, 3), 2, 1),
    ((1, 4, 37, 41), (32, 4, 1, 1), 1, 0),
    ((1, 6, 30, 1), (32, 6, 5, 1), 1, 0),
    ((2, 4, 21, 1), (16, 4, 3, 1), 2, 0),
    ((1, 4, 24, 1), (12, 4, 9, 1), 1, 0),
    ((1, 3, 9, 1), (16, 3, 3, 3), 1, 1),
]


@pytest.mark.parametrize(("x", "w", "stride", "pad"), CASES)
def test_convolution_is_right(x: Shape, w: Shape, stride: int, pad: int) -> None:
    func = conv_func(x, w, stride, pad)
    assert_right(schedule, func, lambda x, w: conv(x, w, stride, pad))


def test_an_image_of_one_column_is_a_row() -> None:
    """Keras' one-dimensional convolutions come so; a tile of one pixel would load more than add."""
    assert rows_of(conv_func((1, 6, 30, 1), (32, 6, 5, 1), 1, 0)) == (26, 1)
    assert rows_of(conv_func((1, 3, 9, 1), (16, 3, 3, 3), 1, 1)) == (1, 9)


def rows_of(func: tirx.PrimFunc) -> tuple[int, int]:
    """How wide the rule takes rows to be, and how many there are."""
    info = analyse(func)
    assert info is not None
    assert info.anchor is not None
    found = conv_of(info.anchor)
    assert found is not None
    return found.width, found.num_rows


def by_numpy(spec: str) -> Callable[..., Array]:
    def computed(*arrays: Array) -> Array:
        return parse_operator(spec).reference(*arrays)

    return computed


@pytest.mark.parametrize(
    "spec",
    [
        "op:conv1d:n=1,ci=6,w=30,co=32,kernel=3,stride=1,pad=1",
        "op:conv1d:n=2,ci=4,w=31,co=16,kernel=5,stride=2,pad=2",
        "op:conv1d:n=2,ci=8,w=16,co=12,kernel=1,stride=1,pad=0",
        "op:dilated_conv2d:n=1,ci=3,h=9,w=16,co=16,kernel=3,stride=1,pad=2,dilation=2",
        "op:group_conv2d:n=2,ci=8,h=5,w=16,co=12,kernel=3,stride=1,pad=1,groups=4",
        "op:group_conv2d:n=1,ci=6,h=5,w=21,co=6,kernel=1,stride=1,pad=0,groups=2",
        "op:conv2d:n=1,ci=3,h=5,w=41,co=45,kernel=3,stride=1,pad=1",
        "op:dilated_conv2d:n=1,ci=3,h=9,w=12,co=16,kernel=3,stride=2,pad=3,dilation=3",
    ],
)
def test_one_axis_dilation_groups_and_odd_rows_are_right(spec: str) -> None:
    assert_right(schedule, parse_operator(spec).tir()["main"], by_numpy(spec))


def test_rows_that_no_tile_divides_leave_a_rest() -> None:
    # Of 41 rows a tile of five leaves one, and works as much per load as one of a divisor of 40.
    assert rows_with_rest(41, (3, 1), 32)[0] == 5
    assert rows_with_rest(28, (4, 2, 1), 32) == ()
    space = schedule(conv_func((1, 4, 3, 41), (48, 4, 3, 3), 1, 1), AVX512)[0]
    conv = space.get_sblock("conv2d_nchw_update")
    heights = [int(space.get(loop).extent) for loop in space.get_loops(conv)]
    assert 9 in heights
    assert 5 in heights


def test_convolution_is_right_with_narrow_vectors() -> None:
    func = conv_func((1, 8, 9, 9), (16, 8, 3, 3), 1, 1)
    assert_right(schedule, func, lambda x, w: conv(x, w, 1, 1), target=AVX2)


@pytest.mark.parametrize(("kernel", "pad"), [(1, 0), (3, 1)])
def test_epilogue_with_bias_residual_and_hardswish_is_right(kernel: int, pad: int) -> None:
    x, w = tensor("x", 1, 6, 8, 16), tensor("w", 16, 6, kernel, kernel)
    bias, residual = tensor("bias", 1, 16, 1, 1), tensor("residual", 1, 16, 8, 16)
    out = op.add(op.nn.conv2d(x, w, padding=pad), bias)

    def expected(x: Array, w: Array, bias: Array, residual: Array) -> Array:
        value: Array = conv(x, w, 1, pad) + bias
        out: Array = value * np.clip(value + 3, 0, 6) / 6 + residual
        return out

    func = fused([x, w, bias, residual], op.add(hardswish(out), residual))
    assert_right(schedule, func, expected)


def test_squeeze_and_excite_convolution_with_relu_is_right() -> None:
    x, w, bias = tensor("x", 1, 40, 1, 1), tensor("w", 10, 40, 1, 1), tensor("bias", 1, 10, 1, 1)
    func = fused([x, w, bias], op.nn.relu(op.add(op.nn.conv2d(x, w), bias)))
    assert_right(schedule, func, lambda x, w, b: np.maximum(conv(x, w, 1, 0) + b, 0))


def test_gate_of_squeeze_and_excite_scales_the_whole_image() -> None:
    x, w, image = tensor("x", 1, 12, 1, 1), tensor("w", 8, 12, 1, 1), tensor("image", 1, 8, 6, 16)
    gate = op.clip(op.add(op.nn.conv2d(x, w), relax.const(0.5, "float32")), 0, 1)

    def expected(x: Array, w: Array, image: Array) -> Array:
        out: Array = np.clip(conv(x, w, 1, 0) + 0.5, 0, 1) * image
        return out

    assert_right(schedule, fused([x, w, image], op.multiply(gate, image)), expected)


def test_ten_random_decisions_stay_legal_and_right() -> None:
    func = conv_func((1, 4, 8, 16), (32, 4, 3, 3), 1, 1)
    assert_right(schedule, func, lambda x, w: conv(x, w, 1, 1), num_random=10)


@pytest.mark.parametrize(
    "func",
    [
        elementwise_func(),
        row_max_func(),
        conv_func((1, 8, 6, 6), (8, 1, 3, 3), 1, 1, groups=8),
        conv_func((1, 8, 6, 6), (8, 2, 3, 3), 2, 1, groups=4),
    ],
)
def test_other_functions_are_left_alone(func: tirx.PrimFunc) -> None:
    assert schedule(func, AVX512) == []


def test_other_machines_are_left_alone() -> None:
    assert schedule(conv_func((1, 4, 6, 6), (8, 4, 3, 3), 1, 1), RVV) == []
