# SPDX-License-Identifier: Apache-2.0
"""What stock MetaSchedule left in a work_dir is learned from: recalled, proposed, and no trial."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path

import pytest
import tvm
from click.testing import CliRunner, Result
from tvm.s_tir import meta_schedule as ms

from kope_tvm.cli import main
from kope_tvm.context import Context
from kope_tvm.imported import import_work_dir
from kope_tvm.machine import load_target
from kope_tvm.measure import MeasureConfig, Pool
from kope_tvm.measure.builder_runner import KopeBuilder, KopeRunner
from kope_tvm.memory import Memory, Store
from kope_tvm.memory.rows import measured_secs
from kope_tvm.model import extract_tasks, load_model
from kope_tvm.outcome import Verdict
from kope_tvm.proposal import Decisions
from kope_tvm.proposers.experience import Experience as Proposer
from kope_tvm.seat import Seat
from kope_tvm.task import Task
from kope_tvm.workbench import Workbench, make_task, state_of

pytestmark = pytest.mark.e2e

HOST = load_target("host")
TRIALS = 4


@pytest.fixture(scope="module")
def mod() -> tvm.IRModule:
    ((_, mod, _),) = extract_tasks(load_model("op:matmul:m=32,n=48,k=64,dtype=float32"), HOST)
    return mod


@pytest.fixture(scope="module")
def stock(tmp_path_factory: pytest.TempPathFactory, mod: tvm.IRModule) -> Path:
    """A work_dir of stock `tune_tir`, with a run that failed and a broken trace appended."""
    work_dir = tmp_path_factory.mktemp("stock")
    config = MeasureConfig(repeat=1, min_repeat_ms=5)
    with Pool(HOST, config, logging.getLogger(__name__)) as pool:
        ms.tune_tir(
            mod,
            tvm.target.Target(dict(HOST.tvm_target)),
            str(work_dir),
            max_trials_global=TRIALS,
            num_trials_per_iter=TRIALS,
            builder=KopeBuilder(),
            runner=KopeRunner(pool, mod),
            cost_model="random",
            num_tuning_cores=1,
        )
    records = work_dir / "database_tuning_record.json"
    # The slowest: a failure takes back what the same proposal measured before it.
    lines = map(json.loads, records.read_text().splitlines())
    number, (trace, _, *others) = max(lines, key=lambda line: line[1][1])
    with records.open("a") as file:
        file.write(json.dumps([number, [trace, [1e10], *others]]) + "\n")
        broken = json.dumps(trace).replace('"GetSBlock"', '"GetNothing"', 1)
        file.write(json.dumps([number, [json.loads(broken), [1e-3], *others]]) + "\n")
    return work_dir


@pytest.fixture(scope="module")
def task(mod: tvm.IRModule) -> Task:
    return make_task("matmul", mod, HOST)


def _kope(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["memory", *arguments])


def test_records_become_edges_that_are_recalled_and_proposed(
    stock: Path, task: Task, mod: tvm.IRModule
) -> None:
    with Memory.open("sqlite://") as memory:
        found = import_work_dir(stock, memory)
        assert (found.source, found.failures) == ("database", 2)
        assert found.experiences == found.new == memory.stats().decisions
        measured = [one for one in memory.store.experiences() if not one.code]
        assert 1 <= len(measured) <= TRIALS
        assert {one.task_key for one in measured} == {state_of(mod)}
        assert {one.machine_key for one in measured} == {HOST.key}
        assert {(one.lane, one.space) for one in measured} == {("decisions", "sketch")}
        assert all("EnterPostproc" not in one.proposal for one in measured)
        assert memory.store.machines()[HOST.key].facts == HOST.facts
        failed, broken = [one for one in memory.store.experiences() if one.code]
        assert (failed.code, failed.run_secs) == ("E_FAILED", ())
        assert (broken.code, broken.run_secs) == ("E_REPLAY", ())

        best = min(measured, key=lambda one: measured_secs(one) or 0.0)
        recalled = memory.recall(task)
        assert recalled[0].experience == best
        assert recalled[0].similarity == 1.0
        bench = Workbench(task)
        context = Context(
            task, 1, num_wanted=8, trials_left=8, seed=1, recalled=recalled, trials=(),
            baseline_secs=0.0, roof_secs=0.0, is_last_round=False, tried=frozenset(),
        )  # fmt: skip
        proposals = Proposer(Seat(bench, memory)).propose(context)
        assert isinstance(proposals[0], Decisions)
        assert proposals[0].trace == best.proposal
        candidate = bench.apply(proposals[0])
        assert not isinstance(candidate, Verdict), candidate.reason
        assert candidate.state == best.state


def test_importing_again_a_copy_and_what_was_added_since_makes_no_doubles(
    stock: Path, tmp_path: Path
) -> None:
    grown = tmp_path / "grown"
    shutil.copytree(stock, grown, copy_function=shutil.copy)
    records = grown / "database_tuning_record.json"
    last = records.read_text().splitlines()[0]
    with Memory.open("sqlite://") as memory:
        first = import_work_dir(stock, memory)
        assert first.new == first.experiences
        assert import_work_dir(stock, memory).new == 0
        assert import_work_dir(grown, memory).new == 0
        records.write_text(records.read_text() + last + "\n")
        assert import_work_dir(grown, memory).new == 1


def test_the_command_takes_stock_and_kope_work_dirs_and_exports(
    stock: Path, tmp_path: Path
) -> None:
    memory, other = str(tmp_path / "m.sqlite"), str(tmp_path / "other.sqlite")
    result = _kope("import", str(stock), "--memory", memory, "--target", "host", "--json")
    assert result.exit_code == 0, result.output
    (told,) = json.loads(result.stdout)["imported"]
    count = told["experiences"]
    assert (told["source"], told["failures"], told["new"]) == ("database", 2, count)

    kope = tmp_path / "kope"
    kope.mkdir()
    with Store.open(memory) as store, Store.open(kope / "experience.sqlite") as journal:
        journal.merge(store)
        experiences = [*journal.experiences()]
    result = _kope("import", str(kope), "--memory", other)
    assert result.exit_code == 0, result.output
    assert f"journal  {count}" in result.stdout
    with Store.open(other) as store:
        assert {*experiences} <= {*store.experiences()}

    exported = str(tmp_path / "all.jsonl")
    assert _kope("export", "-o", exported, "--memory", memory).exit_code == 0
    result = _kope("import", exported, "--memory", str(tmp_path / "third.sqlite"), "--json")
    assert result.exit_code == 0, result.output
    (told,) = json.loads(result.stdout)["imported"]
    assert told["source"] == "export"
    assert _kope("import", exported, "--memory", memory, "--json").exit_code == 0


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "expected the work_dir of a MetaSchedule or kope tuning"),
        ("what?", "not JSON line by line"),
        ("[7]", "line 1 cannot be read"),
    ],
)
def test_what_is_no_work_dir_is_a_wrong_call(
    tmp_path: Path, content: str | None, words: str
) -> None:
    if content is not None:
        for name in ("database_workload.json", "database_tuning_record.json"):
            (tmp_path / name).write_text(content + "\n")
    result = _kope("import", str(tmp_path), "--memory", str(tmp_path / "m.sqlite"))
    assert result.exit_code == 2
    assert words in result.stderr
    assert _kope("import", str(tmp_path / "none")).exit_code == 2
