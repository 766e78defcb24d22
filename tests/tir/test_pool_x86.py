# SPDX-License-Identifier: Apache-2.0
"""The x86 pooling rule: what it takes, what it computes, and that its traces replay."""

from __future__ import annotations

import numpy as np
import pytest
from rule_checks import AVX2, AVX512, RVV, Array, assert_right, elementwise_func, row_max_func
from tvm import te, tirx, topi

from kope_tvm.schedules.pool_x86 import schedule


def pool_func(
    shape: tuple[int, ...], kind: str, kernel: int, stride: int, pad: int
) -> tirx.PrimFunc:
    x = te.placeholder(shape, name="x")
    windows = [kernel, kernel], [stride, stride], [1, 1], [pad] * 4
    return te.create_prim_func([x, topi.nn.pool2d(x, *windows, kind)])


def pool(x: Array, kind: str, kernel: int, stride: int, pad: int) -> Array:
    """Padding is no part of a maximum, and zeros in a mean."""
    fill = -np.inf if kind == "max" else 0.0
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)), constant_values=fill)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (kernel, kernel), axis=(2, 3))
    strided = windows[:, :, ::stride, ::stride]
    out: Array = strided.max((4, 5)) if kind == "max" else strided.mean((4, 5))
    return out


CASES = [
    ((1, 4, 12, 16), 3, 2, 1),
    ((1, 8, 13, 17), 3, 1, 1),
    ((1, 6, 12, 12), 2, 2, 0),
    ((1, 4, 6, 3), 2, 1, 0),
]


@pytest.mark.parametrize("kind", ["max", "avg"])
@pytest.mark.parametrize(("shape", "kernel", "stride", "pad"), CASES)
def test_pooling_is_right(
    shape: tuple[int, ...], kernel: int, stride: int, pad: int, kind: str
) -> None:
    func = pool_func(shape, kind, kernel, stride, pad)
    assert_right(schedule, func, lambda x: pool(x, kind, kernel, stride, pad))


def test_any_decisions_are_right() -> None:
    func = pool_func((1, 8, 12, 17), "max", 3, 1, 1)
    assert_right(schedule, func, lambda x: pool(x, "max", 3, 1, 1), num_random=10)


def test_pooling_is_right_with_narrow_vectors() -> None:
    func = pool_func((1, 4, 9, 11), "avg", 3, 2, 1)
    assert_right(schedule, func, lambda x: pool(x, "avg", 3, 2, 1), target=AVX2)


def test_other_functions_and_targets_are_left_alone() -> None:
    assert schedule(elementwise_func(), AVX512) == []
    assert schedule(row_max_func(), AVX512) == []
    assert schedule(pool_func((1, 2, 8, 8), "max", 2, 2, 0), RVV) == []
    x, w = te.placeholder((1, 4, 8, 8), name="x"), te.placeholder((4, 4, 3, 3), name="w")
    conv = topi.nn.conv2d_nchw(x, w, 1, 1, 1)
    assert schedule(te.create_prim_func([x, w, conv]), AVX512) == []
