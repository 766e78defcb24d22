# SPDX-License-Identifier: Apache-2.0
"""The x86 elementwise rule: what it takes, what it computes, and that its traces replay."""

from __future__ import annotations

import math

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
from tvm import relax, te, tirx, topi

from kope_tvm.operators import parse_operator
from kope_tvm.schedules.elementwise_x86 import schedule

op = relax.op


def gelu(x: Array) -> Array:
    out: Array = 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))
    return out


def gelu_func(*shape: int) -> tirx.PrimFunc:
    x = tensor("x", *shape)
    return fused([x], op.nn.gelu(x))


@pytest.mark.parametrize("shape", [(32, 96), (14, 185), (7, 13, 5), (3,)])
def test_gelu_is_right(shape: tuple[int, ...]) -> None:
    assert_right(schedule, gelu_func(*shape), gelu)


def test_any_decisions_are_right() -> None:
    assert_right(schedule, gelu_func(14, 185), gelu, num_random=10)


def test_gelu_is_right_with_narrow_vectors() -> None:
    assert_right(schedule, gelu_func(6, 45), gelu, target=AVX2)


@pytest.mark.parametrize("shape", [(1, 16, 8, 8), (2, 5, 7, 7), (2, 3, 1, 1)])
def test_a_bias_a_channel_and_hardswish_are_right(shape: tuple[int, ...]) -> None:
    x, bias = tensor("x", *shape), tensor("bias", 1, shape[1], 1, 1)
    func = fused([x, bias], hardswish(op.add(x, bias)))

    def expected(x: Array, bias: Array) -> Array:
        out: Array = (x + bias) * np.clip(x + bias + 3, 0, 6) / 6
        return out

    assert_right(schedule, func, expected)


@pytest.mark.parametrize(
    ("shape", "axes"),
    [((40, 70), (1, 0)), ((7, 13, 5), (2, 0, 1)), ((2, 3, 16, 8), (0, 2, 1, 3))],
)
def test_transpose_is_right(shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    x = te.placeholder(shape, name="x")
    func = te.create_prim_func([x, topi.transpose(x, axes)])
    assert_right(schedule, func, lambda x: x.transpose(axes), num_random=2)


def test_concat_is_right() -> None:
    a, b = te.placeholder((3, 17), name="a"), te.placeholder((5, 17), name="b")
    func = te.create_prim_func([a, b, topi.concatenate([a, b], 0)])
    assert_right(schedule, func, lambda a, b: np.concatenate([a, b]))


def test_a_last_copy_that_is_no_reshape_stays_and_is_right() -> None:
    a = te.placeholder((8, 16), name="a")
    grown = te.compute((8, 16), lambda i, j: a[i, j] * 2.0, name="grown")
    turned = te.compute((8, 16), lambda i, j: grown[(i + 1) % 8, j], name="turned")
    func = te.create_prim_func([a, turned])
    assert_right(schedule, func, lambda a: 2 * np.roll(a, -1, 0))


def test_rows_picked_by_wide_indices_are_copied_by_whole_vectors() -> None:
    func = parse_operator("op:gather:v=9,m=16,n=96").tir()["main"]
    (sch,) = schedule(func, AVX512)
    lane = sch.get_loops(sch.get_sblock("T_take"))[-1]
    assert int(sch.get(lane).extent) == 16


def test_a_large_chain_is_one_parallel_nest_and_a_tiny_one_is_not_parallel() -> None:
    (large,) = schedule(gelu_func(128, 3072), AVX512)
    (tiny,) = schedule(gelu_func(2, 16), AVX512)
    for sch in (large, tiny):
        assert len(sch.get_child_blocks(sch.get_sblock("root"))) == 1
    assert "T.parallel" in large.mod.script()
    assert "T.parallel" not in tiny.mod.script()


def test_other_functions_and_targets_are_left_alone() -> None:
    assert schedule(row_max_func(), AVX512) == []
    assert schedule(elementwise_func(), RVV) == []
    empty = te.placeholder((0, 4), name="x")
    assert schedule(te.create_prim_func([empty, topi.exp(empty)]), AVX512) == []
