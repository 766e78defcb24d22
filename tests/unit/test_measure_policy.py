# SPDX-License-Identifier: Apache-2.0
"""How wrong an output of each dtype may be, and what inputs bring it out."""

from __future__ import annotations

import numpy as np
import pytest

from kope_tvm.measure.compare import compare
from kope_tvm.measure.inputs import Distribution, contents, poison
from kope_tvm.measure.job import Argument, Use
from kope_tvm.measure.policy import Array, expected, policy_of, typical


def _verdicts(truth: Array, untuned: Array, dtype: str, got: Array) -> float:
    row = expected(untuned, truth, dtype, is_integers=False)
    return compare(got, row.values, row.allowed).error


@pytest.mark.parametrize(
    ("dtype", "floor", "cap"),
    [
        ("float64", 4096 * 2.0**-52, 1e-7),
        ("float32", 64 * 2.0**-23, 4e-3),
        ("float16", 4 * 2.0**-10, 0.125),
        ("bfloat16", 2 * 2.0**-7, 0.125),
        ("float8_e4m3fn", 2.0**-3, 0.25),
    ],
)
def test_the_table(dtype: str, floor: float, cap: float) -> None:
    policy = policy_of(dtype)
    assert policy is not None
    assert policy.allowed(0.0) == floor
    assert policy.allowed(1.0) == cap
    assert policy.allowed(floor) == policy.factor * floor


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "bool"])
def test_integers_are_exact(dtype: str) -> None:
    assert policy_of(dtype) is None
    values = np.ones(3, dtype)
    row = expected(values, None, dtype, is_integers=False)
    assert (row.allowed.rtol, row.allowed.steps) == (0.0, 0)


def test_a_bfloat16_sum_is_too_far_from_a_float32_one() -> None:
    truth = np.linspace(1, 2, 64)
    ours = truth.astype(np.float32)
    narrow = (ours.view(np.uint32) & 0xFFFF0000).view(np.float32)
    assert _verdicts(truth, ours, "float32", ours) <= 1
    assert _verdicts(truth, ours, "float32", narrow) > 100


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_all_zeros_are_wrong_whatever_the_size(size: float) -> None:
    truth = np.full((8, 8), size)
    ours = truth.astype(np.float32)
    assert _verdicts(truth, ours, "float32", np.zeros_like(ours)) > 100


def test_b20_all_zeros_for_a_softmax_over_many_are_wrong() -> None:
    logits = np.random.default_rng(0).standard_normal((2, 393216))
    weights = np.exp(logits)
    truth = weights / weights.sum(axis=1, keepdims=True)
    ours = truth.astype(np.float32)
    zeros = np.zeros_like(ours)
    assert np.abs(zeros - ours).max() < 1e-3  # An absolute tolerance lets them through.
    assert _verdicts(truth, ours, "float32", zeros) > 1e4


def test_a8_a_float16_sum_of_ones_may_be_right_or_as_untuned() -> None:
    truth, ours = np.array([4096.0]), np.array([2048], np.float16)
    row = expected(ours, truth, "float16", is_integers=False)
    assert row.values.tolist() == [4096]
    assert row.other is not None
    assert row.other.tolist() == [2048]
    assert compare(np.array([4094], np.float16), row.values, row.allowed).error < 1
    assert compare(np.array([0], np.float16), row.values, row.allowed).error > 1
    assert compare(np.array([0], np.float16), row.other, row.allowed).error > 1


def test_small_integers_are_exact_where_the_untuned_function_is() -> None:
    truth = np.array([3.0, -7.0])
    exact = expected(truth.astype(np.float32), truth, "float32", is_integers=True)
    assert exact.allowed.rtol == 0.0
    third = np.array([1 / 3, 2 / 3])
    rounded = expected(third.astype(np.float32), third, "float32", is_integers=True)
    assert rounded.allowed.rtol == 64 * 2.0**-23
    large = np.array([1000.0])
    in_another_order = expected(large.astype(np.float16), large, "float16", is_integers=True)
    assert in_another_order.allowed.rtol > 0.0


def test_where_the_untuned_function_overflows_so_must_a_candidate() -> None:
    truth, ours = np.array([1e300, 1.0]), np.array([np.inf, 1.0], np.float32)
    assert _verdicts(truth, ours, "float32", ours) == 0.0
    assert _verdicts(truth, ours, "float32", np.array([3e38, 1.0], np.float32)) == np.inf


def test_numbers_far_below_the_others_count_little_but_count() -> None:
    values = np.array([1.0] + [2.0**-20] * 99)
    assert typical(values, np.dtype(np.float32)) == pytest.approx(0.1 / 1024, rel=1e-2)
    assert typical(np.zeros(4), np.dtype(np.float32)) == 0.0


def _drawn(dtype: str, how: Distribution, seed: int = 0, limit: int = 0) -> Array:
    argument = Argument("A", dtype, (4000,), Use.READ, limit)
    return contents(argument, np.dtype(dtype), how, np.random.default_rng(seed), seed)


def test_odd_seeds_do_not_cancel() -> None:
    assert _drawn("float32", Distribution.UNIFORM, 0).min() < -0.9
    assert _drawn("float32", Distribution.UNIFORM, 1).min() >= 0


def test_exponents_lie_far_apart() -> None:
    sizes = np.abs(_drawn("float32", Distribution.WIDE))
    assert np.percentile(sizes, 95) / np.percentile(sizes, 5) > 1000


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "int64"])
def test_small_integers_are_small(dtype: str) -> None:
    assert sorted(set(_drawn(dtype, Distribution.INTEGERS).tolist())) == [-2, -1, 0, 1, 2]


def test_eight_bits_are_used_to_the_full() -> None:
    drawn = _drawn("int8", Distribution.UNIFORM)
    assert (drawn.min(), drawn.max()) == (-128, 127)
    assert _drawn("uint8", Distribution.UNIFORM).max() == 255


def test_addresses_stay_in_bounds() -> None:
    for how in Distribution:
        drawn = _drawn("int64", how, limit=5)
        assert (drawn.min(), drawn.max()) == (0, 4)


def test_specials_lie_in_between() -> None:
    drawn = _drawn("float32", Distribution.SPECIAL)
    assert 10 < np.isnan(drawn).sum() < 100
    assert np.isposinf(drawn).any()
    assert np.isneginf(drawn).any()


def test_poison_is_no_result() -> None:
    out = Argument("C", "float32", (2,), Use.WRITE)
    assert np.isnan(poison(out, np.dtype(np.float32)))
    assert poison(Argument("C", "int8", (2,), Use.WRITE), np.dtype(np.int8)).tolist() == -52
