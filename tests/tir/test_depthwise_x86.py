# SPDX-License-Identifier: Apache-2.0
"""The x86 depthwise rule: what it takes, what it computes, and that its traces replay."""

from __future__ import annotations

import numpy as np
import pytest
from rule_checks import (
    AVX2,
    AVX512,
    RVV,
    Array,
    assert_right,
    depthwise_func,
    elementwise_func,
    fused,
    hardswish,
    row_max_func,
    tensor,
)
from tvm import relax, te, tirx, topi

from kope_tvm.schedules.depthwise_x86 import schedule

op = relax.op


def depthwise(x: Array, w: Array, stride: int, pad: int) -> Array:
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, w.shape[2:], axis=(2, 3))
    out: Array = np.einsum("ncyxij,cij->ncyx", windows[:, :, ::stride, ::stride], w[:, 0])
    return out


CASES = [
    ((14, 14), 3, 1, 1),
    ((14, 16), 3, 2, 1),
    ((13, 15), 3, 2, 1),
    ((3, 48), 5, 1, 2),
    ((12, 24), 5, 2, 2),
    ((1, 24), 5, 1, 2),
    ((2, 24), 5, 1, 2),
    ((3, 24), 3, 2, 1),
    ((4, 24), 7, 2, 3),
    ((9, 9), 3, 1, 0),
    ((1, 1), 3, 1, 1),
]


@pytest.mark.parametrize(("size", "kernel", "stride", "pad"), CASES)
def test_depthwise_is_right(size: tuple[int, int], kernel: int, stride: int, pad: int) -> None:
    func = depthwise_func(size, kernel, stride, pad)
    assert_right(schedule, func, lambda x, w: depthwise(x, w, stride, pad), num_random=2)


def test_depthwise_is_right_with_narrow_vectors() -> None:
    func = depthwise_func((10, 24), 3, 2, 1)
    assert_right(schedule, func, lambda x, w: depthwise(x, w, 2, 1), target=AVX2)


def test_a_tile_is_as_large_as_registers_for_its_sums_are_and_rather_high_than_small() -> None:
    """Half of AVX2's sixteen are for the taps."""
    sizes = {(2, 64): (2, 4), (3, 64): (3, 2), (6, 64): (2, 4), (56, 56): (8, 1), (7, 16): (7, 1)}
    assert {size: _first_tile(size) for size in sizes} == sizes


def _first_tile(size: tuple[int, int]) -> tuple[int, int]:
    space = schedule(depthwise_func(size, 3, 1, 1), AVX2)[0]
    rows, vectors = space.trace.decisions.items()
    row, vector = (int(inst.attrs[0][int(decision)]) for inst, decision in (rows, vectors))
    return row, vector


def test_topi_depthwise_is_right() -> None:
    x, w = te.placeholder((1, 8, 12, 16), name="x"), te.placeholder((8, 1, 3, 3), name="w")
    func = te.create_prim_func([x, w, topi.nn.depthwise_conv2d_nchw(x, w, 2, 1, 1)])
    assert_right(schedule, func, lambda x, w: depthwise(x, w, 2, 1))


@pytest.mark.parametrize("stride", [1, 2])
def test_epilogue_with_bias_and_hardswish_is_right(stride: int) -> None:
    x, w, bias = tensor("x", 1, 6, 8, 16), tensor("w", 6, 1, 3, 3), tensor("bias", 1, 6, 1, 1)
    out = op.add(op.nn.conv2d(x, w, strides=stride, padding=1, groups=6), bias)

    def expected(x: Array, w: Array, bias: Array) -> Array:
        value: Array = depthwise(x, w, stride, 1) + bias
        out: Array = value * np.clip(value + 3, 0, 6) / 6
        return out

    assert_right(schedule, fused([x, w, bias], hardswish(out)), expected)


def test_ten_random_decisions_stay_legal_and_right() -> None:
    func = depthwise_func((8, 32), 3, 1, 1)
    assert_right(schedule, func, lambda x, w: depthwise(x, w, 1, 1), num_random=10)


@pytest.mark.parametrize("func", [elementwise_func(), row_max_func()])
def test_other_functions_are_left_alone(func: tirx.PrimFunc) -> None:
    assert schedule(func, AVX512) == []


def test_full_and_grouped_convolutions_are_left_alone() -> None:
    x, full, grouped = tensor("x", 1, 6, 8, 8), tensor("w", 6, 6, 3, 3), tensor("w", 6, 2, 3, 3)
    assert schedule(fused([x, full], op.nn.conv2d(x, full, padding=1)), AVX512) == []
    assert schedule(fused([x, grouped], op.nn.conv2d(x, grouped, groups=3)), AVX512) == []


def test_other_machines_are_left_alone() -> None:
    assert schedule(depthwise_func((8, 8), 3, 1, 1), RVV) == []
