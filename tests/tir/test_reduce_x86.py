# SPDX-License-Identifier: Apache-2.0
"""The x86 reduction rule: what it takes, what it computes, and that its traces replay."""

from __future__ import annotations

import numpy as np
import pytest
from rule_checks import AVX2, AVX512, RVV, Array, assert_right, elementwise_func
from tvm import te, tirx, topi

from kope_tvm.schedules.reduce_x86 import schedule

Axis = int | tuple[int, ...] | None


def sum_func(*shape: int, axis: Axis) -> tirx.PrimFunc:
    x = te.placeholder(shape, name="x")
    return te.create_prim_func([x, topi.sum(x, axis=axis)])


def max_func(*shape: int, axis: Axis) -> tirx.PrimFunc:
    x = te.placeholder(shape, name="x")
    return te.create_prim_func([x, topi.max(x, axis=axis)])


CASES: list[tuple[tuple[int, ...], Axis]] = [
    ((64, 128), -1),
    ((64, 128), 0),
    ((64, 128), None),
    ((14, 185), -1),
    ((14, 185), 0),
    ((7, 13, 5), 1),
    ((7, 13, 5), (0, 2)),
    ((7, 13, 5), None),
    ((3, 2), -1),
    ((1, 4, 6), 0),
]


@pytest.mark.parametrize(("shape", "axis"), CASES)
def test_sum_is_right(shape: tuple[int, ...], axis: Axis) -> None:
    func = sum_func(*shape, axis=axis)
    assert_right(schedule, func, lambda x: np.asarray(x.sum(axis=axis)))


@pytest.mark.parametrize(("shape", "axis"), [((6, 45), -1), ((6, 45), 0), ((6, 45), None)])
def test_max_is_right_with_narrow_vectors(shape: tuple[int, ...], axis: Axis) -> None:
    func = max_func(*shape, axis=axis)
    assert_right(schedule, func, lambda x: np.asarray(x.max(axis=axis)), target=AVX2)


@pytest.mark.parametrize(("shape", "axis"), [((12, 185), -1), ((40, 70), 0), ((300, 700), None)])
def test_any_decisions_are_right(shape: tuple[int, ...], axis: Axis) -> None:
    func = max_func(*shape, axis=axis)
    assert_right(schedule, func, lambda x: np.asarray(x.max(axis=axis)), num_random=10)


def test_a_large_reduction_to_a_scalar_runs_in_parallel() -> None:
    (sch,) = schedule(sum_func(1024, 1024, axis=None), AVX512)
    assert "T.parallel" in sch.mod.script()


def test_global_average_pooling_is_right() -> None:
    x = te.placeholder((1, 64, 7, 7), name="x")
    func = te.create_prim_func([x, topi.nn.global_pool(x, "avg")])
    assert_right(schedule, func, lambda x: x.mean((2, 3), keepdims=True))


def test_a_fused_square_root_of_a_sum_of_squares_is_right() -> None:
    x = te.placeholder((6, 100), name="x")
    func = te.create_prim_func([x, topi.sqrt(topi.sum(topi.multiply(x, x), axis=1))])

    def expected(x: Array) -> Array:
        out: Array = np.sqrt((x * x).sum(1))
        return out

    assert_right(schedule, func, expected)


def test_other_functions_and_targets_are_left_alone() -> None:
    assert schedule(elementwise_func(), AVX512) == []
    assert schedule(sum_func(8, 16, axis=-1), RVV) == []
    a, b = te.placeholder((8, 16), name="a"), te.placeholder((16, 8), name="b")
    assert schedule(te.create_prim_func([a, b, topi.matmul(a, b)]), AVX512) == []
    n = tirx.Var("n", "int32")
    x = te.placeholder((n, 8), name="x")
    assert schedule(te.create_prim_func([x, topi.sum(x, axis=1)]), AVX512) == []
