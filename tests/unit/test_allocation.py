# SPDX-License-Identifier: Apache-2.0
"""Rounds go where most time is left to win."""

from __future__ import annotations

import pytest

from kope_tvm.allocation import Allocation
from kope_tvm.context import Trial
from kope_tvm.outcome import Measurement, accept
from kope_tvm.panel import Panel
from kope_tvm.proposal import Decisions
from kope_tvm.round import Run, Tuning
from kope_tvm.target import TargetSpec
from kope_tvm.task import Task


def _tuning(secs: float, weight: float = 1.0, *, is_seen: bool = True) -> Tuning:
    task = Task("t", "key", "", TargetSpec("host", {"kind": "llvm"}), weight=weight)
    tuning = Tuning(
        task, Run("r", 1, "tvm"), Panel({}), lambda _: accept("apply"), [], lambda _: (),
        lambda *_: None, baseline_secs=secs,
    )  # fmt: skip
    if is_seen:
        measured = Measurement((secs,))
        tuning.trials.append(Trial("s", Decisions("x", "[]"), accept("device"), measured))
    return tuning


def test_every_task_is_seen_before_any_is_searched() -> None:
    allocation = Allocation([_tuning(5.0), _tuning(0.001, is_seen=False)])
    assert allocation.next() == 1


def test_the_task_with_most_weighted_time_comes_first() -> None:
    assert Allocation([_tuning(2.0), _tuning(1.0, weight=3.0)]).next() == 1


def test_a_task_that_stops_improving_gives_way() -> None:
    allocation = Allocation([_tuning(2.0), _tuning(1.5)])
    assert allocation.next() == 0
    allocation.credit(0, before_secs=2.0, num_trials=4)
    assert allocation.next() == 1


def test_an_improvement_restores_the_promise() -> None:
    tunings = [_tuning(2.0), _tuning(1.5)]
    allocation = Allocation(tunings)
    allocation.credit(0, before_secs=2.0, num_trials=4)
    allocation.credit(0, before_secs=2.5, num_trials=4)
    assert allocation.next() == 0


@pytest.mark.parametrize("is_closed", [True, False])
def test_a_task_without_a_candidate_or_closed_gets_no_more_rounds(is_closed: bool) -> None:
    allocation = Allocation([_tuning(2.0), _tuning(1.0)])
    if is_closed:
        allocation.close(0)
    else:
        allocation.credit(0, before_secs=2.0, num_trials=0)
    assert allocation.next() == 1
    allocation.close(1)
    assert allocation.next() is None


def test_a_small_share_is_worth_one_guess() -> None:
    allocation = Allocation([_tuning(1.0), _tuning(0.004), _tuning(0.006)])
    assert [allocation.first_round(index) for index in range(3)] == [4, 1, 4]


def test_an_unknown_time_is_not_a_small_one() -> None:
    assert Allocation([_tuning(1.0), _tuning(0.0)]).first_round(1) == 4


def test_room_up_to_the_roof_counts_too() -> None:
    near, far = _tuning(2.0), _tuning(1.5)
    near.roof_secs, far.roof_secs = 1.9, 0.1
    assert Allocation([near, far]).next() == 1
