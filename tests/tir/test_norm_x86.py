# SPDX-License-Identifier: Apache-2.0
"""The x86 normalisation rule: what it takes, what it computes, and that its traces replay."""

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
    row_max_func,
    tensor,
)
from tvm import relax, te, tirx, topi
from tvm.s_tir import Schedule

from kope_tvm.operators import parse_operator
from kope_tvm.schedules.norm_x86 import schedule

op = relax.op
EPSILON = 1e-5


def layer_norm(x: Array, gamma: Array, beta: Array) -> Array:
    scaled: Array = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + EPSILON)
    return scaled * gamma + beta


def rms_norm(x: Array, gamma: Array) -> Array:
    out: Array = x / np.sqrt((x * x).mean(-1, keepdims=True) + EPSILON) * gamma
    return out


def layer_norm_func(*shape: int) -> tirx.PrimFunc:
    x = te.placeholder(shape, name="x")
    gamma, beta = (te.placeholder(shape[-1:], name=name) for name in ("gamma", "beta"))
    last = [len(shape) - 1]
    return te.create_prim_func([x, gamma, beta, topi.nn.layer_norm(x, gamma, beta, last, EPSILON)])


@pytest.mark.parametrize("shape", [(64, 96), (14, 185), (1, 6, 40), (7, 13, 5), (5, 3)])
def test_layer_norm_is_right(shape: tuple[int, ...]) -> None:
    assert_right(schedule, layer_norm_func(*shape), layer_norm)


def test_any_decisions_are_right() -> None:
    assert_right(schedule, layer_norm_func(12, 185), layer_norm, num_random=10)


@pytest.mark.parametrize("shape", [(64, 96), (14, 185), (5, 3)])
def test_rms_norm_is_right(shape: tuple[int, ...]) -> None:
    x, gamma = te.placeholder(shape, name="x"), te.placeholder(shape[-1:], name="gamma")
    last = [len(shape) - 1]
    func = te.create_prim_func([x, gamma, topi.nn.rms_norm(x, gamma, last, EPSILON)])
    assert_right(schedule, func, rms_norm)


def test_instance_norm_is_right() -> None:
    x = te.placeholder((2, 6, 8, 7), name="x")
    gamma, beta = (te.placeholder((6,), name=name) for name in ("gamma", "beta"))
    func = te.create_prim_func(
        [x, gamma, beta, topi.nn.instance_norm(x, gamma, beta, 1, [2, 3], EPSILON)]
    )

    def expected(x: Array, gamma: Array, beta: Array) -> Array:
        planes = x.reshape(2, 6, 56)
        return layer_norm(planes, gamma[:, None], beta[:, None]).reshape(x.shape)

    assert_right(schedule, func, expected)


@pytest.mark.parametrize(
    ("n", "channels", "size", "groups"), [(1, 8, 4, 2), (2, 6, 5, 3), (1, 6, 7, 1), (3, 4, 3, 4)]
)
def test_group_norm_is_right_whose_rows_are_parts_of_a_dimension(
    n: int, channels: int, size: int, groups: int
) -> None:
    sizes = f"n={n},ci={channels},h={size},w={size},groups={groups}"
    bound = parse_operator(f"op:group_norm:{sizes}")
    assert_right(schedule, bound.tir()["main"], bound.reference, num_random=4)


def test_a_group_norm_is_two_blocks_and_no_reshape() -> None:
    func = parse_operator("op:group_norm:n=1,ci=8,h=4,w=4,groups=2").tir()["main"]
    (sch,) = schedule(func, AVX512)
    assert {name.split("_rf")[0] for name in blocks_of(sch)} == {"X_red_temp", "T_group_norm"}


def blocks_of(sch: Schedule) -> list[str]:
    """Names of all blocks that are left."""
    return [str(sch.get(block).name_hint) for block in sch.get_child_blocks(sch.get_sblock("root"))]


def test_what_relax_fuses_around_a_layer_norm_is_computed_in_the_rows() -> None:
    x, gamma, beta = tensor("x", 1, 16, 48), tensor("gamma", 48), tensor("beta", 48)
    normed = op.nn.layer_norm(x, gamma, beta, axes=[-1], epsilon=EPSILON)
    assert_right(schedule, fused([x, gamma, beta], normed), layer_norm)


def test_layer_norm_is_right_with_narrow_vectors() -> None:
    assert_right(schedule, layer_norm_func(6, 45), layer_norm, target=AVX2)


def test_other_functions_and_targets_are_left_alone() -> None:
    assert schedule(elementwise_func(), AVX512) == []
    assert schedule(row_max_func(), AVX512) == []
    assert schedule(layer_norm_func(8, 16), RVV) == []
    x = te.placeholder((8, 16), name="x")
    assert schedule(te.create_prim_func([x, topi.nn.softmax(x, -1)]), AVX512) == []
