# SPDX-License-Identifier: Apache-2.0
"""What is faster than the machine is refused, unless the machine was only busy when it was seen."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from pathlib import Path

import pytest
import tvm

from kope_tvm.candidate import Candidate
from kope_tvm.ceiling import Ceiling
from kope_tvm.extraction import as_task_module
from kope_tvm.features import features
from kope_tvm.feedback.rates import Rates
from kope_tvm.feedback.roof import Roof, kept_roof, known_roof
from kope_tvm.machine import load_target
from kope_tvm.measure import MeasureConfig, Pool
from kope_tvm.model import load_model
from kope_tvm.pool_device import PoolDevice
from kope_tvm.proposal import Decisions
from kope_tvm.toolchain import toolchain
from kope_tvm.tuning import tune

HOST = load_target("host")
MOD = load_model("op:softmax:m=64,n=64,dtype=float32").mod
TASK = as_task_module(MOD["main"])
BELIEVED, IMPOSSIBLE = 1e-12, 1e3
"""Seconds that no call undercuts, and that every call does."""


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    config = MeasureConfig(repeat=2, min_repeat_ms=2)
    with Pool(HOST, config, logging.getLogger(__name__)) as it:
        yield it


def _measured(pool: Pool, *floors_secs: float) -> tuple[str, int]:
    """The code of the untuned function as a candidate, and how often the machine was asked.

    It answers with the second of `floors_secs`, where there is one.
    """
    answers: list[int] = []

    def doubt() -> bool:
        answers.append(1)
        return len(answers) < len(floors_secs)

    def floor_secs() -> float:
        return floors_secs[min(len(answers), len(floors_secs) - 1)]

    spent: list[float] = []
    device = PoolDevice(pool, TASK, spent.append, doubt, floor_secs, prove_secs=math.inf)
    candidates = [Candidate(Decisions("", ""), name, tvm.s_tir.Schedule(TASK)) for name in "ab"]
    found = dict(device.measure(candidates))
    assert sorted(found) == [0, 1]
    assert sum(spent) > 0
    (code,) = {measurement.code for measurement in found.values()}
    return code, len(answers)


def test_a_candidate_below_the_roof_is_impossible_only_if_the_machine_says_so_twice(
    pool: Pool,
) -> None:
    assert _measured(pool, BELIEVED) == ("", 0)
    assert _measured(pool, IMPOSSIBLE) == ("E_IMPOSSIBLE", 1)
    assert _measured(pool, IMPOSSIBLE, IMPOSSIBLE) == ("E_IMPOSSIBLE", 1)
    assert _measured(pool, IMPOSSIBLE, BELIEVED) == ("", 1)


def test_a_roof_in_doubt_is_measured_again_once_and_kept(pool: Pool, tmp_path: Path) -> None:
    said: list[str] = []
    slow = Rates({"float32": 1e3}, ((0, 1e3),))
    kept_roof(Roof(HOST.key, toolchain(), slow, slow, 1.0), HOST, tmp_path)
    ceiling = Ceiling(pool, HOST, tmp_path)
    softmax = features(TASK)
    before = ceiling.secs(softmax)
    ceiling.measure(said.append)
    assert (said, before > 1.0) == ([], True)
    assert ceiling.doubt(said.append)
    assert not ceiling.doubt(said.append)
    assert said == [
        "faster than this machine was seen to be: measuring that again before it is believed"
    ]
    assert ceiling.secs(softmax) < before / 1000
    kept = known_roof(HOST, tmp_path)
    assert kept is not None
    assert ceiling.secs(softmax) == (kept.secs(softmax) if kept.is_settled else 0.0)


def test_where_nothing_is_known_nothing_is_refused_until_it_was_measured(
    pool: Pool, tmp_path: Path
) -> None:
    said: list[str] = []
    ceiling = Ceiling(pool, HOST, tmp_path)
    softmax = features(TASK)
    assert (ceiling.secs(softmax), ceiling.doubt(said.append)) == (0.0, False)
    ceiling.measure(said.append)
    assert said == ["measuring what this machine can do at most: some seconds, once a machine"]
    ceiling.raise_to(softmax, 1e-9)
    assert ceiling.secs(softmax) <= 1e-9 * 1.001


def test_a_tuning_without_a_model_doubts_a_roof_that_is_too_low_before_it_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KOPE_HOME", str(tmp_path))
    slow = Rates({"float32": 1e3}, ((0, 1e3),))
    kept_roof(Roof(HOST.key, toolchain(), slow, slow, 1.0), HOST, tmp_path)
    found = tune(
        "op:softmax:m=64,n=64,dtype=float32", HOST, tmp_path / "work", 3, proposer="rules", seed=1
    )
    (task,) = found.tasks
    assert "E_IMPOSSIBLE" not in dict(task.refusals)
    assert task.correct
    kept = known_roof(HOST, tmp_path)
    assert kept is not None
    assert kept.secs(features(TASK)) < task.best_secs or not kept.is_settled
