# SPDX-License-Identifier: Apache-2.0
"""The x86 convolution rule: what it takes, what it computes, and that its traces replay."""

from __future__ import annotations

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
]


@pytest.mark.parametrize(("x", "w", "stride", "pad"), CASES)
def test_convolution_is_right(x: Shape, w: Shape, stride: int, pad: int) -> None:
    func = conv_func(x, w, stride, pad)
    assert_right(schedule, func, lambda x, w: conv(x, w, stride, pad))


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
        conv_func((1, 8, 6, 6), (8, 2, 3, 3), 1, 1, groups=4),
    ],
)
def test_other_functions_are_left_alone(func: tirx.PrimFunc) -> None:
    assert schedule(func, AVX512) == []


def test_other_machines_are_left_alone() -> None:
    assert schedule(conv_func((1, 4, 6, 6), (8, 4, 3, 3), 1, 1), RVV) == []
