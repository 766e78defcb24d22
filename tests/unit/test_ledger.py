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
from tvm.s_tir import meta_schedule as ms

from kope_tvm.candidate import Candidate
from kope_tvm.errors import StorageError, WorkDirError
from kope_tvm.ledger import Ledger
from kope_tvm.memory.experience import Experience
from kope_tvm.memory.memory import Memory
from kope_tvm.memory.store import Store
from kope_tvm.proposal import Decisions, Plan, Proposal, Rewrite, Step, lane_of, proposal_text
from kope_tvm.records import trace_key
from kope_tvm.target import Facts, TargetSpec
from kope_tvm.task import Task
from kope_tvm.workbench import make_task, state_of, trace_text

HOST = TargetSpec("host", {"kind": "llvm", "num-cores": 2})
RECORDS = "database_tuning_record.json"
LANES = ("decisions", "plan", "rewrite")


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


def _in_two_steps() -> tvm.IRModule:
    """The same function by another sum: a workload of its own."""
    A = te.placeholder((8, 16), name="A")
    half = te.compute((8, 16), lambda i, j: A[i, j] + 0.5, name="half")
    B = te.compute((8, 16), lambda i, j: half[i, j] + 0.5, name="B")
    return tvm.IRModule({"main": te.create_prim_func([A, B])})


def _candidate(factor: int, lane: str = "decisions") -> Candidate:
    base = _in_two_steps() if lane == "rewrite" else None
    sch = Schedule(base or _module())
    loop = sch.get_loops(sch.get_sblock("B"))[1]
    sch.split(loop, [None, factor])
    proposals: dict[str, Proposal] = {
        "decisions": Decisions("rule:x", trace_text(sch.trace)),
        "plan": Plan((Step("split", {"block": "B", "loop": "j", "factors": [-1, factor]}),)),
        "rewrite": Rewrite("half = A + 0.5", Decisions("", trace_text(sch.trace))),
    }
    return Candidate(proposals[lane], state_of(sch.mod), sch, base)


def _experience(task: Task, candidate: Candidate, run_secs: tuple[float, ...]) -> Experience:
    lane = lane_of(candidate.proposal)
    return Experience(
        task_key=task.key, task_name=task.name, features=task.features,
        machine_key=task.target.key, state=candidate.state, parent="", lane=lane,
        space="rule:x" if lane == "decisions" else "", proposal=proposal_text(candidate.proposal),
        proposer="rules", change="",
        round_no=1, order=0, accepted=True, code="" if run_secs else "E_CRASH", reason="",
        suspicious=False, run_secs=run_secs, baseline_secs=1.0, noise=0.0, tokens=0, cites=(),
        seed=1, toolchain="tvm", simulated=False, run_id="r", at=float(sum(run_secs)),
    )  # fmt: skip


def _lines(ledger: Ledger) -> list[str]:
    return (ledger.work_dir / RECORDS).read_text(encoding="utf-8").splitlines()


def _times(ledger: Ledger) -> list[list[float]]:
    return [json.loads(line)[1][1] for line in _lines(ledger)]


def _record(
    ledger: Ledger, task: Task, factor: int, *secs: float, lane: str = "decisions"
) -> Experience:
    candidate = _candidate(factor, lane)
    experience = _experience(task, candidate, secs)
    ledger.record(experience, candidate)
    return experience


def test_a_right_outcome_is_on_record_once_and_a_failed_one_only_in_the_journal(
    ledger: Ledger,
) -> None:
    task = _task()
    ledger.open_workload(_module())
    right, failed = _record(ledger, task, 2, 0.5), _record(ledger, task, 4)
    assert {one.state for one in ledger.past(task)} == {right.state, failed.state}
    assert _times(ledger) == [[0.5]]


def test_a_record_that_a_kill_kept_from_the_database_is_written_at_the_next_start(
    ledger: Ledger,
) -> None:
    task = _task()
    ledger.open_workload(_module())
    for factor in (2, 4, 8):
        _record(ledger, task, factor, factor / 10)
    whole = _lines(ledger)
    (ledger.work_dir / RECORDS).write_text("\n".join(whole[:2]) + "\n", encoding="utf-8")
    ledger.reconcile(task, lambda one: _candidate(8))
    assert _lines(ledger) == whole
    ledger.reconcile(task, lambda one: pytest.fail("nothing is missing any more"))


@pytest.mark.parametrize("lane", LANES)
def test_the_finals_times_replace_the_first_ones_and_come_back(
    tmp_path: Path, memory: Memory, lane: str
) -> None:
    task = _task()
    with closing(Ledger(tmp_path / "work", HOST, memory)) as ledger:
        ledger.open_workload(_module())
        first = _record(ledger, task, 2, 0.1, lane=lane)
        second = _record(ledger, task, 4, 0.2)
        assert not ledger.is_settled(task)
        ledger.settle(task, {first.state: (0.1, 0.3, 0.3)})
        assert ledger.is_settled(task)
    with closing(Ledger(tmp_path / "work", HOST, memory)) as again:
        again.open_workload(_module())
        again.reconcile(task, lambda one: _candidate(2, lane))
        assert again.is_settled(task)
        assert _times(again) == [[0.1, 0.3, 0.3], [0.2]]
        assert {one.state: one.run_secs for one in again.past(task)} == {
            first.state: (0.1, 0.3, 0.3),
            second.state: (0.2,),
        }


@pytest.mark.parametrize("lane", LANES)
def test_an_outcome_that_only_the_journal_has_is_put_everywhere_at_the_next_start(
    tmp_path: Path, memory: Memory, lane: str
) -> None:
    task, work_dir, candidate = _task(), tmp_path / "work", _candidate(2, lane)
    with closing(Ledger(work_dir, HOST, memory)) as ledger:
        ledger.open_workload(_module())
    with Store.open(str(work_dir / "experience.sqlite")) as journal:
        journal.record(_experience(task, candidate, (0.5,)))
    for _ in range(2):
        with closing(Ledger(work_dir, HOST, memory)) as ledger:
            ledger.open_workload(_module())
            ledger.reconcile(task, lambda one: candidate)
            assert (_times(ledger), ledger.notices) == ([[0.5]], [])
    assert memory.stats().decisions == 1
    assert len(list((work_dir / "rewrites" / task.key).glob("*.py"))) == (lane == "rewrite")
    assert len(list((work_dir / "plans" / task.key).glob("*.json"))) == (lane == "plan")


def test_a_rewrite_is_never_a_record_of_the_function_it_rewrites(ledger: Ledger) -> None:
    task = _task()
    ledger.open_workload(_module())
    _record(ledger, task, 2, 0.2)
    rewrite = _record(ledger, task, 4, 0.1, lane="rewrite")
    stock = ms.database.JSONDatabase(work_dir=str(ledger.work_dir))
    target = tvm.target.Target(dict(HOST.tvm_target))
    workloads = [record.workload.mod for record in stock.get_all_tuning_records()]
    assert {state_of(mod) for mod in workloads} == {task.key, state_of(_in_two_steps())}
    original = stock.query_ir_module(_module(), target, "main")
    assert state_of(original) == _candidate(2).state
    rewritten = stock.query_schedule(_in_two_steps(), target, "main")
    assert state_of(rewritten.mod) == rewrite.state
    script = ledger.work_dir / "rewrites" / task.key / f"{state_of(_in_two_steps())}.py"
    assert script.read_text(encoding="utf-8") == "half = A + 0.5"


def test_a_plan_that_its_trace_does_not_tell_again_leaves_the_database_whole(
    ledger: Ledger,
) -> None:
    task = _task()
    ledger.open_workload(_module())
    foreign = _candidate(2, "rewrite").sch
    foreign.get_sblock("half")
    plan = _candidate(2, "plan").proposal
    broken = Candidate(plan, state_of(foreign.mod), foreign)
    ledger.record(_experience(task, broken, (0.5,)), broken)
    assert ledger.notices == [
        "add_one: a plan of 0.5 s is not put on record: its trace, read back, makes another program"
    ]
    _record(ledger, task, 2, 0.7, lane="plan")
    stock = ms.database.JSONDatabase(work_dir=str(ledger.work_dir))
    assert len(stock.get_all_tuning_records()) == 1
    assert _times(ledger) == [[0.7]]


def test_what_no_longer_applies_is_said(ledger: Ledger) -> None:
    task = _task()
    ledger.open_workload(_module())
    _record(ledger, task, 2, 0.25, lane="rewrite")
    ledger.reconcile(task, lambda one: None)
    assert ledger.notices == []
    (ledger.work_dir / RECORDS).write_text("", encoding="utf-8")
    ledger.reconcile(task, lambda one: None)
    assert ledger.notices == [
        "add_one: a rewrite of 0.25 s is not put on record: it no longer applies"
    ]
    (past,) = ledger.past(task)
    assert (past.accepted, past.run_secs, past.code) == (False, (), "E_REPLAY")


@pytest.mark.parametrize("torn", ['[0,[[["Split"', "[0,[[], [0.5]]]"])
def test_a_last_line_without_its_end_is_made_whole_or_set_aside(
    tmp_path: Path, memory: Memory, torn: str
) -> None:
    with closing(Ledger(tmp_path / "work", HOST, memory)) as ledger:
        task = _task()
        ledger.open_workload(_module())
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
    ledger.open_workload(_module())
    _record(ledger, task, 2, 0.5)
    ledger.close()
    other = TargetSpec("board", {"kind": "llvm", "num-cores": 8}, Facts("rvv", 256, num_cores=8))
    with pytest.raises(WorkDirError, match=r"holds records of .* given target 'board'"):
        Ledger(ledger.work_dir, other, memory)


def test_a_write_that_fails_says_that_the_rest_is_kept(ledger: Ledger) -> None:
    task = _task()
    ledger.open_workload(_module())
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
