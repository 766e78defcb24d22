# SPDX-License-Identifier: Apache-2.0
"""A work_dir keeps every outcome once, whatever moment a run was killed at."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import tvm
from ledger_parts import (
    HOST,
    LANES,
    RECORDS,
    candidate_of,
    experience_of,
    in_two_steps,
    lines,
    module,
    recorded,
    task_of_it,
    times,
)
from tvm.s_tir import Schedule, Trace
from tvm.s_tir import meta_schedule as ms

from kope_tvm.candidate import Candidate
from kope_tvm.errors import StorageError, WorkDirError
from kope_tvm.ledger import Ledger
from kope_tvm.memory.memory import Memory
from kope_tvm.memory.store import Store
from kope_tvm.performance import Comparison
from kope_tvm.records import trace_key
from kope_tvm.target import Facts, TargetSpec
from kope_tvm.workbench import state_of

STAYS = Comparison(correct=True, suspicious=False, faster=False, gain=1.02, needed=1.03)


def untouched() -> Trace:
    sch = Schedule(module())
    sch.get_sblock("root")
    return sch.trace


@pytest.fixture
def ledger(tmp_path: Path, memory: Memory) -> Iterator[Ledger]:
    with closing(Ledger(tmp_path / "work", HOST, memory)) as ledger:
        yield ledger


def test_a_right_outcome_is_on_record_once_and_a_failed_one_only_in_the_journal(
    ledger: Ledger,
) -> None:
    task = task_of_it()
    ledger.open_workload(module())
    right, failed = recorded(ledger, task, 2, 0.5), recorded(ledger, task, 4)
    assert {one.state for one in ledger.past(task)} == {right.state, failed.state}
    assert times(ledger) == [[0.5]]


def test_a_record_that_a_kill_kept_from_the_database_is_written_at_the_next_start(
    ledger: Ledger,
) -> None:
    task = task_of_it()
    ledger.open_workload(module())
    for factor in (2, 4, 8):
        recorded(ledger, task, factor, factor / 10)
    whole = lines(ledger)
    (ledger.work_dir / RECORDS).write_text("\n".join(whole[:2]) + "\n", encoding="utf-8")
    ledger.reconcile(task, lambda one: candidate_of(8))
    assert lines(ledger) == whole
    ledger.reconcile(task, lambda one: pytest.fail("nothing is missing any more"))


@pytest.mark.parametrize("lane", LANES)
def test_the_finals_times_replace_the_first_ones_and_come_back(
    tmp_path: Path, memory: Memory, lane: str
) -> None:
    task = task_of_it()
    with closing(Ledger(tmp_path / "work", HOST, memory)) as ledger:
        ledger.open_workload(module())
        first = recorded(ledger, task, 2, 0.1, lane=lane)
        second = recorded(ledger, task, 4, 0.2)
        assert not ledger.is_settled(task, untouched())
        ledger.keep_baseline(task, untouched(), 0.5)
        ledger.settle(task, {first.state: (0.1, 0.3, 0.3)}, STAYS)
        assert ledger.is_settled(task, untouched())
    with closing(Ledger(tmp_path / "work", HOST, memory)) as again:
        again.open_workload(module())
        again.reconcile(task, lambda one: candidate_of(2, lane))
        assert again.is_settled(task, untouched())
        assert again.comparison(task) == STAYS
        assert times(again) == [[0.3, 0.3, 0.3], [0.2], [0.5]]
        assert {one.state: one.run_secs for one in again.past(task)} == {
            first.state: (0.3, 0.3, 0.3),
            second.state: (0.2,),
        }


@pytest.mark.parametrize("lane", LANES)
def test_an_outcome_that_only_the_journal_has_is_put_everywhere_at_the_next_start(
    tmp_path: Path, memory: Memory, lane: str
) -> None:
    task, work_dir, candidate = task_of_it(), tmp_path / "work", candidate_of(2, lane)
    with closing(Ledger(work_dir, HOST, memory)) as ledger:
        ledger.open_workload(module())
    with Store.open(str(work_dir / "experience.sqlite")) as journal:
        journal.record(experience_of(task, candidate, (0.5,)))
    for _ in range(2):
        with closing(Ledger(work_dir, HOST, memory)) as ledger:
            ledger.open_workload(module())
            ledger.reconcile(task, lambda one: candidate)
            assert (times(ledger), ledger.notices) == ([[0.5]], [])
    assert memory.stats().decisions == 1
    assert len(list((work_dir / "rewrites" / task.key).glob("*.py"))) == (lane == "rewrite")
    assert len(list((work_dir / "plans" / task.key).glob("*.json"))) == (lane == "plan")


def test_a_record_says_the_median_so_that_stock_takes_what_the_finals_took(
    ledger: Ledger,
) -> None:
    task = task_of_it()
    ledger.open_workload(module())
    recorded(ledger, task, 2, 1.0, 1.0, 9.0)
    recorded(ledger, task, 4, 0.3, 2.0, 2.0)
    assert times(ledger) == [[1.0] * 3, [2.0] * 3]
    stock = ms.database.JSONDatabase(work_dir=str(ledger.work_dir))
    best = stock.query_ir_module(module(), tvm.target.Target(dict(HOST.tvm_target)), "main")
    assert state_of(best) == candidate_of(2).state


def test_the_untuned_function_is_on_record_once_with_its_last_time(ledger: Ledger) -> None:
    task = task_of_it()
    ledger.open_workload(module())
    for secs in (0.5, 0.25):
        ledger.keep_baseline(task, untouched(), secs)
        assert times(ledger) == [[secs]]


@pytest.mark.parametrize("lane", LANES)
@pytest.mark.parametrize("lost", ["the winner", "the untuned function"])
def test_finals_whose_record_was_lost_are_held_again(ledger: Ledger, lane: str, lost: str) -> None:
    task = task_of_it()
    ledger.open_workload(module())
    winner = recorded(ledger, task, 2, 0.1, lane=lane)
    ledger.keep_baseline(task, untouched(), 0.5)
    ledger.settle(task, {winner.state: (0.1, 0.3, 0.3)}, STAYS)
    ledger.reconcile(task, lambda one: candidate_of(2, lane))
    assert ledger.is_settled(task, untouched())
    left = lines(ledger)[lost == "the winner"]
    (ledger.work_dir / RECORDS).write_text(f"{left}\n", encoding="utf-8")
    ledger.reconcile(task, lambda one: candidate_of(2, lane))
    assert not ledger.is_settled(task, untouched())


def test_a_rewrite_is_never_a_record_of_the_function_it_rewrites(ledger: Ledger) -> None:
    task = task_of_it()
    ledger.open_workload(module())
    recorded(ledger, task, 2, 0.2)
    rewrite = recorded(ledger, task, 4, 0.1, lane="rewrite")
    stock = ms.database.JSONDatabase(work_dir=str(ledger.work_dir))
    target = tvm.target.Target(dict(HOST.tvm_target))
    workloads = [record.workload.mod for record in stock.get_all_tuning_records()]
    assert {state_of(mod) for mod in workloads} == {task.key, state_of(in_two_steps())}
    original = stock.query_ir_module(module(), target, "main")
    assert state_of(original) == candidate_of(2).state
    rewritten = stock.query_schedule(in_two_steps(), target, "main")
    assert state_of(rewritten.mod) == rewrite.state
    script = ledger.work_dir / "rewrites" / task.key / f"{state_of(in_two_steps())}.py"
    assert script.read_text(encoding="utf-8") == "half = A + 0.5"


def test_a_plan_that_its_trace_does_not_tell_again_leaves_the_database_whole(
    ledger: Ledger,
) -> None:
    task = task_of_it()
    ledger.open_workload(module())
    foreign = candidate_of(2, "rewrite").sch
    foreign.get_sblock("half")
    plan = candidate_of(2, "plan").proposal
    broken = Candidate(plan, state_of(foreign.mod), foreign)
    ledger.record(experience_of(task, broken, (0.5,)), broken)
    assert ledger.notices == [
        "add_one: a plan of 0.5 s is not put on record: its trace, read back, makes another program"
    ]
    recorded(ledger, task, 2, 0.7, lane="plan")
    stock = ms.database.JSONDatabase(work_dir=str(ledger.work_dir))
    assert len(stock.get_all_tuning_records()) == 1
    assert times(ledger) == [[0.7]]


def test_what_no_longer_applies_is_said(ledger: Ledger) -> None:
    task = task_of_it()
    ledger.open_workload(module())
    recorded(ledger, task, 2, 0.25, lane="rewrite")
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
        task = task_of_it()
        ledger.open_workload(module())
        recorded(ledger, task, 2, 0.5)
        (whole,) = lines(ledger)
    path = tmp_path / "work" / RECORDS
    is_whole = torn.endswith("]]]")
    path.write_text(whole if is_whole else f"{whole}\n{torn}", encoding="utf-8")
    with closing(Ledger(tmp_path / "work", HOST, memory)) as ledger:
        assert lines(ledger) == [whole]
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
    task = task_of_it()
    ledger.open_workload(module())
    recorded(ledger, task, 2, 0.5)
    ledger.close()
    other = TargetSpec("board", {"kind": "llvm", "num-cores": 8}, Facts("rvv", 256, num_cores=8))
    with pytest.raises(WorkDirError, match=r"holds records of .* given target 'board'"):
        Ledger(ledger.work_dir, other, memory)


def test_a_write_that_fails_says_that_the_rest_is_kept(ledger: Ledger) -> None:
    task = task_of_it()
    ledger.open_workload(module())
    recorded(ledger, task, 2, 0.5)
    path = ledger.work_dir / RECORDS
    path.rename(path.with_suffix(".gone"))
    path.symlink_to("/dev/full")
    with pytest.raises(StorageError, match="everything measured before is kept"):
        recorded(ledger, task, 4, 0.5)
    path.unlink()
    path.with_suffix(".gone").rename(path)
    assert times(ledger) == [[0.5]]
    ledger.reconcile(task, lambda one: candidate_of(4))
    assert times(ledger) == [[0.5], [0.5]]


def test_a_proposal_and_its_record_have_one_key() -> None:
    trace = (
        '[[["Split",["l0","None",2],[true,false],["l1"]],["EnterPostproc",[],[],[]]],[[0,[4,2]]]]'
    )
    record = '[[["Split", ["l0", "None", 2], [1, 0], ["l1"]]], [[0, [4, 2]]]]'
    other = record.replace("[4, 2]", "[2, 4]")
    assert trace_key(trace) == trace_key(record) != trace_key(other)
