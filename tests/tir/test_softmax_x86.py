# SPDX-License-Identifier: Apache-2.0
"""The x86 softmax rule: what it takes, what it computes, and that its traces replay."""

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
    row_max_func,
)
from tvm import te, tirx, topi

from kope_tvm.schedules.softmax_x86 import schedule


def softmax(x: Array, axis: int) -> Array:
    exps: Array = np.exp(x - x.max(axis, keepdims=True))
    return exps / exps.sum(axis, keepdims=True)


def softmax_func(*shape: int, axis: int = -1) -> tirx.PrimFunc:
    x = te.placeholder(shape, name="x")
    return te.create_prim_func([x, topi.nn.softmax(x, axis)])


CASES = [
    ((64, 128), -1),
    ((14, 185), -1),
    ((1, 3, 8, 40), -1),
    ((5, 3), -1),
    ((1, 1000), -1),
    ((7, 13, 5), 1),
    ((2, 6, 48), 1),
    ((6, 128), 0),
]


@pytest.mark.parametrize(("shape", "axis"), CASES)
def test_softmax_is_right(shape: tuple[int, ...], axis: int) -> None:
    assert_right(schedule, softmax_func(*shape, axis=axis), lambda x: softmax(x, axis))


def test_any_decisions_are_right() -> None:
    func = softmax_func(16, 185)
    assert_right(schedule, func, lambda x: softmax(x, -1), num_random=10)


def test_log_softmax_is_right() -> None:
    x = te.placeholder((14, 185), name="x")
    func = te.create_prim_func([x, topi.nn.log_softmax(x, -1)])
    assert_right(schedule, func, lambda x: np.log(softmax(x, -1)))


def test_a_scale_a_mask_and_what_follows_are_computed_in_the_rows() -> None:
    x, mask = te.placeholder((2, 4, 16, 24), name="x"), te.placeholder((2, 1, 1, 24), name="mask")
    half, two = te.const(0.5, "float32"), te.const(2.0, "float32")
    out = topi.multiply(topi.nn.softmax(topi.add(topi.multiply(x, half), mask), -1), two)
    func = te.create_prim_func([x, mask, out])
    assert_right(schedule, func, lambda x, mask: 2 * softmax(x * 0.5 + mask, -1))


def test_softmax_is_right_with_narrow_vectors() -> None:
    assert_right(schedule, softmax_func(6, 45), lambda x: softmax(x, -1), target=AVX2)


def test_a_large_softmax_runs_rows_in_parallel_and_a_small_one_does_not() -> None:
    (large,) = schedule(softmax_func(512, 1024), AVX512)
    (small,) = schedule(softmax_func(14, 185), AVX512)
    assert "T.parallel" in large.mod.script()
    assert "T.parallel" not in small.mod.script()


def test_other_functions_and_targets_are_left_alone() -> None:
    assert schedule(elementwise_func(), AVX512) == []
    assert schedule(row_max_func(), AVX512) == []
    assert schedule(softmax_func(8, 16), RVV) == []
    n = tirx.Var("n", "int32")
    x = te.placeholder((n, 8), name="x")
    assert schedule(te.create_prim_func([x, topi.nn.softmax(x, -1)]), AVX512) == []
