# SPDX-License-Identifier: Apache-2.0
"""Plans and rewrites from the round to a fresh process, and what stock TVM sees of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from logging import getLogger
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from scripted_round import (
    HOST,
    PLAN,
    PROPOSALS,
    REWRITE,
    SOFTMAX,
    STORES_NO_EXPONENTIALS,
    TVM_HOST,
    Timed,
    applied,
    bench_of,
    learn,
    opened,
    outermost_in_parallel,
    tuning_of,
)
from tvm import relax
from tvm.s_tir import meta_schedule as ms
from tvm_ffi import structural_equal

import kope_tvm
from kope_tvm.candidate import Candidate
from kope_tvm.compilation import compile_model, verify_model
from kope_tvm.finals import finals
from kope_tvm.measure.config import MeasureConfig
from kope_tvm.measure.pool import Pool
from kope_tvm.model import Model, load_model
from kope_tvm.outcome import Measurement
from kope_tvm.proposal import Proposal
from kope_tvm.report import task_report
from kope_tvm.workbench import Workbench, state_of

pytestmark = pytest.mark.e2e

LAYERS = """
from tvm.script import ir as I, relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((8, 32), "float32"), w: R.Tensor((32, 32), "float32")):
        with R.dataflow():
            h = R.nn.relu(R.matmul(x, w))
            y = R.nn.softmax(h)
            R.output(y)
        return y
"""


@dataclass(frozen=True)
class Measured:
    """This machine."""

    pool: Pool
    bench: Workbench

    def measure(self, candidates: Sequence[Candidate]) -> Iterator[tuple[int, Measurement]]:
        mods = [candidate.sch.mod for candidate in candidates]
        return self.pool.measure(mods, reference=self.bench.mod)


def softmax(x: np.ndarray) -> np.ndarray:
    shifted = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=1, keepdims=True))


def in_a_fresh_process(code: str, *args: object) -> Any:
    """What `code` prints as JSON where nothing of this process is known, and no endpoint."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")
    }
    environment["PYTHONPATH"] = str(Path(kope_tvm.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", f"import sys, json\nargs = sys.argv[1:]\n{code}", *map(str, args)],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def layers(tmp_path: Path) -> Model:
    path = tmp_path / "layers.py"
    path.write_text(LAYERS)
    return load_model(path)


COMPILE = """
import numpy as np
import kope_tvm
from kope_tvm.target import TargetSpec
from kope_tvm.artifact import Artifact
host = TargetSpec("host", {"kind": "llvm", "num-cores": 2})
kope_tvm.compile(args[0], host, args[1]).save(args[2])
loaded = Artifact.load(args[2])
x = np.load(args[3])
np.save(args[4], loaded.run({loaded.inputs[0].name: x})[0])
found = loaded.coverage
json.dump([found.hit, found.lanes, found.fallback, found.failed, str(found)], sys.stdout)
"""


@pytest.mark.slow
@pytest.mark.parametrize("lane", sorted(PROPOSALS))
def test_what_a_round_measured_is_compiled_in_a_fresh_process(tmp_path: Path, lane: str) -> None:
    bench = bench_of(load_model(SOFTMAX))
    config = MeasureConfig(repeat=2, min_repeat_ms=5)
    with opened(tmp_path / "work") as ledger, Pool(HOST, config, getLogger(__name__)) as pool:
        tuning = tuning_of(ledger, bench, [PROPOSALS[lane]])
        (trial,) = tuning.run_round(Measured(pool, bench), 1, 1)
        assert trial.measurement is not None
        assert trial.measurement.ok, trial.measurement.error
        report = task_report(tuning)
    assert report.best_space == {"plan": "plan", "rewrite": "rewrite:plan"}[lane]
    x = np.random.default_rng(3).standard_normal((8, 32)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    files = [tmp_path / name for name in ("work", "out.so", "x.npy", "y.npy")]
    found = in_a_fresh_process(COMPILE, SOFTMAX, *files)
    text = f"1 of 1 functions tuned (main by a {lane}), 0 fell back"
    assert found == [["main"], [lane], [], [], text]
    assert np.allclose(np.load(files[-1]), softmax(x), rtol=1e-5)


def test_the_fastest_on_record_is_taken(tmp_path: Path) -> None:
    model = load_model(SOFTMAX)
    bench = bench_of(model)
    decisions = outermost_in_parallel(bench)
    for fastest in ("decisions", "plan", "rewrite"):
        work_dir = tmp_path / fastest / "work"
        lanes: dict[str, Proposal] = {"decisions": decisions, **PROPOSALS}
        learn(
            work_dir, bench, *((one, 0.2 - 0.1 * (lane == fastest)) for lane, one in lanes.items())
        )
        artifact = compile_model(model, HOST, work_dir)
        assert artifact.coverage.lanes == (fastest,)
        assert verify_model(model, artifact, seeds=1).ok


def test_the_finals_decide_between_lanes(tmp_path: Path) -> None:
    model, work_dir = load_model(SOFTMAX), tmp_path / "work"
    bench = bench_of(model)
    with opened(work_dir) as ledger:
        tuning = tuning_of(ledger, bench, [PLAN, REWRITE])
        list(tuning.run_round(Timed({"plan": 0.10, "rewrite": 0.11}), 2, 2))
        assert compile_model(model, HOST, work_dir).coverage.lanes == ("plan",)
        held = finals(tuning.trials, bench.apply, Timed({"plan": 0.12, "rewrite": 0.09}))
        ledger.settle(bench.task, {trial.state: one.run_secs for trial, one in held}, None)
    assert compile_model(model, HOST, work_dir).coverage.lanes == ("rewrite",)
    with opened(work_dir) as ledger:
        resumed = tuning_of(ledger, bench, [])
        assert ledger.is_settled(resumed.task, bench.untouched)
        times = {one.lane: one.run_secs for one in ledger.past(bench.task)}
    assert times == {"plan": (0.12,) * 3, "rewrite": (0.09,) * 3}


def test_the_untuned_function_stays_where_it_is_the_fastest(tmp_path: Path) -> None:
    bench = bench_of(load_model(SOFTMAX))
    learn(tmp_path / "work", bench, (REWRITE, 0.2))
    with opened(tmp_path / "work") as ledger:
        ledger.open_workload(bench.mod)
        ledger.keep_baseline(bench.task, bench.untouched, 0.1)
    coverage = compile_model(load_model(SOFTMAX), HOST, tmp_path / "work").coverage
    assert (coverage.fallback, coverage.failed) == (("main",), ())


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("import os\n", r"no longer applies: E_SCRIPT"),
        ("\x00 nonsense", r"no longer applies: E_SCRIPT"),
        (STORES_NO_EXPONENTIALS.replace("(8, 32)", "(8, 16)"), r"no longer applies: E_"),
        (STORES_NO_EXPONENTIALS.replace("float32(0)", "float32(1)"), r"not the one that was"),
    ],
    ids=["import", "garbled", "signature", "edited"],
)
def test_a_rewrite_that_no_longer_applies_leaves_the_best_stock_record(
    tmp_path: Path, text: str, reason: str
) -> None:
    model, work_dir = load_model(SOFTMAX), tmp_path / "work"
    bench = bench_of(model)
    learn(work_dir, bench, (outermost_in_parallel(bench), 0.2), (REWRITE, 0.1))
    (script,) = (work_dir / "rewrites" / bench.task.key).glob("*.py")
    script.write_text(text)
    artifact = compile_model(model, HOST, work_dir)
    assert artifact.coverage.lanes == ("decisions",)
    (failure,) = artifact.coverage.failed
    assert failure.startswith("main: its rewrite ")
    assert reason in failure
    assert verify_model(model, artifact, seeds=1).ok


def test_compiling_needs_no_journal_and_tuning_restores_what_was_deleted(tmp_path: Path) -> None:
    model, work_dir = load_model(SOFTMAX), tmp_path / "work"
    bench = bench_of(model)
    learn(work_dir, bench, (PLAN, 0.2), (REWRITE, 0.1))
    journal = work_dir / "experience.sqlite"
    whole = journal.read_bytes()
    for damaged in (b"garbled" * 1000, None):
        if damaged is None:
            journal.unlink()
        else:
            journal.write_bytes(damaged)
        assert compile_model(model, HOST, work_dir).coverage.lanes == ("rewrite",)
    (script,) = (work_dir / "rewrites" / bench.task.key).glob("*.py")
    script.unlink()
    assert compile_model(model, HOST, work_dir).coverage.lanes == ("plan",)
    journal.write_bytes(whole)
    learn(work_dir, bench)
    assert script.read_text() == STORES_NO_EXPONENTIALS
    assert compile_model(model, HOST, work_dir).coverage.lanes == ("rewrite",)


def test_stock_tvm_reads_the_work_dir_of_a_rewrite(layers: Model, tmp_path: Path) -> None:
    bench, work_dir = bench_of(layers), tmp_path / "work"
    decisions = outermost_in_parallel(bench, "T_softmax_norm")
    learn(work_dir, bench, (decisions, 0.2), (REWRITE, 0.1))
    database = ms.database.JSONDatabase(work_dir=str(work_dir))
    rewritten = bench.rewritten(STORES_NO_EXPONENTIALS)
    assert isinstance(rewritten, Workbench)
    workloads = {state_of(one.workload.mod) for one in database.get_all_tuning_records()}
    assert workloads == {bench.task.key, rewritten.task.key}
    best = database.query_ir_module(bench.mod, TVM_HOST, "main")
    assert state_of(best) == applied(bench, decisions).state
    scheduled = database.query_schedule(rewritten.mod, TVM_HOST, "main")
    assert state_of(scheduled.mod) == applied(bench, REWRITE).state
    with TVM_HOST, database, tvm.transform.PassContext(opt_level=3):
        stock = relax.transform.MetaScheduleApplyDatabase()(layers.mod)
    scheduled_by_stock = stock["softmax"].without_attr("tirx.is_scheduled")
    assert structural_equal(
        scheduled_by_stock.with_attr("global_symbol", "main"),
        applied(bench, decisions).sch.mod["main"],
    )
    assert "tirx.is_scheduled" not in stock["fused_matmul_relu"].attrs


def test_the_pass_puts_a_rewrite_into_a_pipeline(layers: Model, tmp_path: Path) -> None:
    work_dir = tmp_path / "work"
    learn(work_dir, bench_of(layers), (REWRITE, 0.1))
    experience = kope_tvm.transform.ApplyExperience(work_dir, HOST)
    pipeline = tvm.transform.Sequential([experience])
    mod = pipeline(layers.mod)
    assert experience.coverage.hit == ("softmax",)
    assert experience.coverage.fallback == ("fused_matmul_relu",)
    compiled = compile_model(layers, HOST, work_dir)
    assert compiled.coverage == experience.coverage
    assert "tirx.is_scheduled" in mod["softmax"].attrs
    assert mod["softmax"].attrs["tirx.noalias"]
    assert structural_equal(mod["fused_matmul_relu"], layers.mod["fused_matmul_relu"])
    rng = np.random.default_rng(5)
    x, w = (rng.standard_normal(shape).astype(np.float32) for shape in ((8, 32), (32, 32)))
    built = relax.build(
        layers.mod,
        TVM_HOST,
        relax_pipeline=tvm.transform.Sequential([experience, relax.get_pipeline("default_build")]),
    )
    machine = relax.VirtualMachine(built, tvm.cpu())
    ours = machine["main"](tvm.runtime.tensor(x), tvm.runtime.tensor(w)).numpy()
    assert np.allclose(ours, softmax(np.maximum(x @ w, 0)), rtol=1e-4, atol=1e-6)
    assert np.allclose(compiled.run(x=x, w=w)[0], ours, rtol=1e-6)


def test_a_rewrite_that_says_the_same_is_a_record_of_the_function_itself(tmp_path: Path) -> None:
    model, work_dir = load_model(SOFTMAX), tmp_path / "work"
    bench = bench_of(model)
    rewritten = bench.rewritten(STORES_NO_EXPONENTIALS)
    assert isinstance(rewritten, Workbench)
    learn(work_dir, rewritten, (REWRITE, 0.1))
    assert not (work_dir / "rewrites").exists()
    database = ms.database.JSONDatabase(work_dir=str(work_dir))
    (record,) = database.get_all_tuning_records()
    assert state_of(record.workload.mod) == rewritten.task.key
