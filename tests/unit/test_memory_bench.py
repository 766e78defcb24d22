# SPDX-License-Identifier: Apache-2.0
"""The suite `memory`: a stream that grows alike, and shares that are right."""

from __future__ import annotations

from itertools import islice

import pytest

from kope_tvm.bench.memory_synthetic import MACHINES, TRIALS, Stream
from kope_tvm.bench.memory_transfer import OTHER_SHAPES, Transfer, Transfers
from kope_tvm.operators import QUICK_SUITE, parse_operator


def transfer(spec: str, **ratios: float) -> Transfer:
    by_trials = {int(name[1:]): ratio for name, ratio in ratios.items()}
    return Transfer(spec, 32, 1e-3, by_trials, 100, 60.0, 60.0)


def test_a_longer_stream_begins_like_a_shorter_one() -> None:
    short = list(Stream(3).experiences(2 * TRIALS))
    assert list(islice(Stream(3).experiences(5 * TRIALS), 2 * TRIALS)) == short
    assert len({one.run_id for one in short}) == 2
    assert any(one.code for one in short)
    assert all(one.parent == "" or one.parent in {each.state for each in short} for one in short)


def test_an_unseen_task_is_in_no_session() -> None:
    stream = Stream(3)
    seen = {one.task_key for one in stream.experiences(10 * TRIALS)}
    assert stream.unseen_task(MACHINES[0]).key not in seen


def test_an_operator_is_there_after_the_first_trials_that_are_as_fast_within_noise() -> None:
    early = transfer("a", n1=0.5, n4=0.96, n8=0.98, n32=1.1)
    late = transfer("b", n1=0.5, n4=0.7, n8=0.9, n32=1.0)
    never = transfer("c", n1=0.5, n4=0.7, n8=0.9, n32=0.95)
    assert [one.trials_to_reach for one in (early, late, never)] == [8, 32, None]
    found = Transfers((early, late, never, early))
    assert found.early_share == 0.5
    assert found.worst == 0.95
    assert found.geomean == pytest.approx((1.1 * 1.0 * 0.95 * 1.1) ** 0.25)


def test_every_operator_of_the_suite_has_another_shape_of_the_same_kind() -> None:
    assert set(OTHER_SHAPES) == set(QUICK_SUITE)
    for spec, other in OTHER_SHAPES.items():
        assert spec != other
        assert spec.split(":")[1] == other.split(":")[1]
        assert parse_operator(other).inputs
