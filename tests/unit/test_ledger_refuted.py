# SPDX-License-Identifier: Apache-2.0
"""What was right and is refuted is right for nobody, whatever moment a run was killed at."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from ledger_parts import (
    HOST,
    LANES,
    RECORDS,
    candidate_of,
    lines,
    module,
    recorded,
    task_of_it,
)

from kope_tvm.ledger import Ledger
from kope_tvm.memory.memory import Memory
from kope_tvm.outcome import Measurement

WRONG = Measurement(stage="check", code="E_NUMERICS", error="max_rel 3.1e-2 at [63]")
CHEAT = Measurement(stage="check", code="E_IMPOSSIBLE", error="too fast")


@pytest.fixture
def ledger(tmp_path: Path, memory: Memory) -> Iterator[Ledger]:
    with closing(Ledger(tmp_path / "work", HOST, memory)) as ledger:
        yield ledger


@pytest.mark.parametrize("lane", LANES)
def test_what_is_refuted_is_no_longer_right_anywhere(
    tmp_path: Path, memory: Memory, lane: str
) -> None:
    task = task_of_it()
    with closing(Ledger(tmp_path / "work", HOST, memory)) as ledger:
        ledger.open_workload(module())
        wrong = recorded(ledger, task, 2, 0.1, lane=lane)
        right = recorded(ledger, task, 4, 0.2)
        assert next(iter(ledger.recall(task))).experience.state == wrong.state
        ledger.refute(task, wrong.state, WRONG)
    assert _last_outcomes(tmp_path, memory, lane) == {
        wrong.state: ((), "E_NUMERICS", "max_rel 3.1e-2 at [63]"),
        right.state: ((0.2,), "", ""),
    }
    best, *others = memory.recall(task)
    assert (best.experience.state, best.value) == (right.state, 1.0)
    assert [(one.experience.code, one.value) for one in others] == [("E_NUMERICS", 0.0)]


def test_what_was_refuted_for_cheating_is_never_recalled(ledger: Ledger, memory: Memory) -> None:
    task = task_of_it()
    ledger.open_workload(module())
    cheat = recorded(ledger, task, 2, 0.1)
    memory.recall(task)
    ledger.refute(task, cheat.state, CHEAT)
    assert [one.suspicious for one in ledger.past(task)] == [True]
    assert memory.recall(task) == ()


@pytest.mark.parametrize("lane", LANES)
def test_a_kill_while_it_is_refuted_makes_it_right_nowhere(
    tmp_path: Path, memory: Memory, lane: str
) -> None:
    task = task_of_it()
    with closing(Ledger(tmp_path / "work", HOST, memory)) as ledger:
        ledger.open_workload(module())
        wrong = recorded(ledger, task, 2, 0.1, lane=lane)
        (line,) = lines(ledger)
    number, (trace, _, *others) = json.loads(line)
    failed = json.dumps([number, [trace, [1e10], *others]])
    (tmp_path / "work" / RECORDS).write_text(f"{failed}\n", encoding="utf-8")
    for _ in range(2):
        reason = "by a run that was stopped then"
        found = _last_outcomes(tmp_path, memory, lane)
        assert found == {wrong.state: ((), "E_REFUTED", reason)}
    assert [one.experience.code for one in memory.recall(task)] == ["E_REFUTED"]
    assert memory.stats().decisions == 2


def _last_outcomes(
    folder: Path, memory: Memory, lane: str
) -> dict[str, tuple[tuple[float, ...], str, str]]:
    task = task_of_it()
    with closing(Ledger(folder / "work", HOST, memory)) as again:
        again.open_workload(module())
        again.reconcile(task, lambda one: candidate_of(2, lane))
        return {one.state: (one.run_secs, one.code, one.reason) for one in again.past(task)}
