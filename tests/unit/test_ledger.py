# SPDX-License-Identifier: Apache-2.0
"""A work_dir keeps every outcome once, whatever moment a run was killed at."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import tvm
from tvm import te
from tvm.s_tir import Schedule

from kope_tvm.candidate import Candidate
from kope_tvm.errors import StorageError, WorkDirError
from kope_tvm.ledger import Ledger
from kope_tvm.memory.experience import Experience
from kope_tvm.memory.memory import Memory
from kope_tvm.proposal import Decisions
from kope_tvm.records import trace_key
from kope_tvm.target import Facts, TargetSpec
from kope_tvm.task import Task
from kope_tvm.workbench import make_task, state_of, trace_text

HOST = TargetSpec("host", {"kind": "llvm", "num-cores": 2})
RECORDS = "database_tuning_record.json"


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(tmp_path / "memory.sqlite") as memory:
        yield memory


@pytest.fixture
def ledger(tmp_path: Path, memory: Memory) -> Iterator[Ledger]:
    with closing(Ledger(tmp_path / "work", HOST, memory)) as ledger:
        yield ledger


def _module() -> tvm.IRModule:
    A = te.placeholder((8, 16), name="A")
    B = te.compute((8, 16), lambda i, j: A[i, j] + 1.0, name="B")
    return tvm.IRModule({"main": te.create_prim_func([A, B])})


def _task() -> Task:
    return make_task("add_one", _module(), HOST)


def _candidate(factor: int) -> Candidate:
    sch = Schedule(_module())
    loop = sch.get_loops(sch.get_sblock("B"))[1]
    sch.split(loop, [None, factor])
    return Candidate(Decisions("rule:x", trace_text(sch.trace)), state_of(sch.mod), sch)


def _experience(task: Task, candidate: Candidate, run_secs: tuple[float, ...]) -> Experience:
    assert isinstance(candidate.proposal, Decisions)
    return Experience(
        task_key=task.key, task_name=task.name, features=task.features,
        machine_key=task.target.key, state=candidate.state, parent="", lane="decisions",
        space="rule:x", proposal=candidate.proposal.trace, proposer="rules", change="",
        round_no=1, order=0, accepted=True, code="" if run_secs else "E_CRASH", reason="",
        suspicious=False, run_secs=run_secs, baseline_secs=1.0, noise=0.0, tokens=0, cites=(),
        seed=1, toolchain="tvm", simulated=False, run_id="r", at=float(sum(run_secs)),
    )  # fmt: skip


def _lines(ledger: Ledger) -> list[str]:
    return (ledger.work_dir / RECORDS).read_text(encoding="utf-8").splitlines()


def _times(ledger: Ledger) -> list[list[float]]:
    return [json.loads(line)[1][1] for line in _lines(ledger)]


def _record(ledger: Ledger, task: Task, factor: int, *secs: float) -> Experience:
    candidate = _candidate(factor)
    experience = _experience(task, candidate, secs)
    ledger.record(experience, candidate)
    return experience


def test_a_right_outcome_is_on_record_once_and_a_failed_one_only_in_the_journal(
    ledger: Ledger,
) -> None:
    task = _task()
    ledger.open_workload(_module(), task)
    right, failed = _record(ledger, task, 2, 0.5), _record(ledger, task, 4)
    assert {one.state for one in ledger.past(task)} == {right.state, failed.state}
    assert _times(ledger) == [[0.5]]


def test_a_record_that_a_kill_kept_from_the_database_is_written_at_the_next_start(
    ledger: Ledger,
) -> None:
    task = _task()
    ledger.open_workload(_module(), task)
    for factor in (2, 4, 8):
        _record(ledger, task, factor, factor / 10)
    whole = _lines(ledger)
    (ledger.work_dir / RECORDS).write_text("\n".join(whole[:2]) + "\n", encoding="utf-8")
    ledger.reconcile(task, lambda one: _candidate(8))
    assert _lines(ledger) == whole
    ledger.reconcile(task, lambda one: pytest.fail("nothing is missing any more"))


def test_the_finals_times_replace_the_first_ones_and_come_back(ledger: Ledger) -> None:
    task = _task()
    ledger.open_workload(_module(), task)
    first, second = _record(ledger, task, 2, 0.1), _record(ledger, task, 4, 0.2)
    assert not ledger.is_settled(task)
    ledger.settle(task, {first.proposal: (0.1, 0.3, 0.3)})
    assert ledger.is_settled(task)
    assert _times(ledger) == [[0.1, 0.3, 0.3], [0.2]]
    assert {one.state: one.run_secs for one in ledger.past(task)} == {
        first.state: (0.1, 0.3, 0.3),
        second.state: (0.2,),
    }


@pytest.mark.parametrize("torn", ['[0,[[["Split"', "[0,[[], [0.5]]]"])
def test_a_last_line_without_its_end_is_made_whole_or_set_aside(
    tmp_path: Path, memory: Memory, torn: str
) -> None:
    with closing(Ledger(tmp_path / "work", HOST, memory)) as ledger:
        task = _task()
        ledger.open_workload(_module(), task)
        _record(ledger, task, 2, 0.5)
        (whole,) = _lines(ledger)
    path = tmp_path / "work" / RECORDS
    is_whole = torn.endswith("]]]")
    path.write_text(whole if is_whole else f"{whole}\n{torn}", encoding="utf-8")
    with closing(Ledger(tmp_path / "work", HOST, memory)) as ledger:
        assert _lines(ledger) == [whole]
        assert path.read_bytes().endswith(b"\n")
        assert len(ledger.notices) == (0 if is_whole else 1)
    assert is_whole or path.with_suffix(".torn").read_text(encoding="utf-8") == torn + "\n"


def test_a_work_dir_in_use_is_refused_and_free_after_a_failed_start(
    tmp_path: Path, ledger: Ledger, memory: Memory
) -> None:
    with pytest.raises(WorkDirError, match="is in use by another tuning"):
        Ledger(ledger.work_dir, HOST, memory)
    other = tmp_path / "other"
    other.mkdir()
    (other / RECORDS).write_text("[]\n", encoding="utf-8")
    (other / "database_workload.json").write_text("nonsense\n", encoding="utf-8")
    with pytest.raises(WorkDirError, match="MetaSchedule cannot read"):
        Ledger(other, HOST, memory)
    (other / RECORDS).unlink()
    (other / "database_workload.json").unlink()
    Ledger(other, HOST, memory).close()


def test_a_work_dir_of_another_target_is_refused(ledger: Ledger, memory: Memory) -> None:
    task = _task()
    ledger.open_workload(_module(), task)
    _record(ledger, task, 2, 0.5)
    ledger.close()
    other = TargetSpec("board", {"kind": "llvm", "num-cores": 8}, Facts("rvv", 256, num_cores=8))
    with pytest.raises(WorkDirError, match=r"holds records of .* given target 'board'"):
        Ledger(ledger.work_dir, other, memory)


def test_a_write_that_fails_says_that_the_rest_is_kept(ledger: Ledger) -> None:
    task = _task()
    ledger.open_workload(_module(), task)
    _record(ledger, task, 2, 0.5)
    path = ledger.work_dir / RECORDS
    path.rename(path.with_suffix(".gone"))
    path.symlink_to("/dev/full")
    with pytest.raises(StorageError, match="everything measured before is kept"):
        _record(ledger, task, 4, 0.5)
    path.unlink()
    path.with_suffix(".gone").rename(path)
    assert _times(ledger) == [[0.5]]
    ledger.reconcile(task, lambda one: _candidate(4))
    assert _times(ledger) == [[0.5], [0.5]]


def test_a_proposal_and_its_record_have_one_key() -> None:
    trace = (
        '[[["Split",["l0","None",2],[true,false],["l1"]],["EnterPostproc",[],[],[]]],[[0,[4,2]]]]'
    )
    record = '[[["Split", ["l0", "None", 2], [1, 0], ["l1"]]], [[0, [4, 2]]]]'
    other = record.replace("[4, 2]", "[2, 4]")
    assert trace_key(trace) == trace_key(record) != trace_key(other)
