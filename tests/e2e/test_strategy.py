# SPDX-License-Identifier: Apache-2.0
"""Every door of MetaSchedule with strategy "kope", and stock readers on what kope wrote."""

from __future__ import annotations

import logging
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, te
from tvm.s_tir import meta_schedule as ms
from tvm.script import ir as I
from tvm.script import relax as R

import kope_tvm
from kope_tvm.machine import load_target
from kope_tvm.measure.config import MeasureConfig
from kope_tvm.measure.pool import Pool

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

N = 64
MATMUL = f"op:matmul:m={N},n={N},k={N},dtype=float32"
QUICK = MeasureConfig(min_repeat_ms=5)


@I.ir_module
class Perceptron:
    @R.function
    def main(
        x: R.Tensor((8, 32), "float32"),  # noqa: N805
        w: R.Tensor((32, 16), "float32"),
    ) -> R.Tensor((8, 16), "float32"):
        with R.dataflow():
            y = R.matmul(x, w)
            z = R.nn.relu(y)
            R.output(z)
        return z


def _matmul(n: int = N) -> tvm.IRModule:
    A = te.placeholder((n, n), name="A")
    B = te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), name="k")
    C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    return tvm.IRModule({"main": te.create_prim_func([A, B, C])})


@pytest.fixture(scope="module")
def target() -> tvm.target.Target:
    return tvm.target.Target(dict(load_target("host").tvm_target))


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with Pool(load_target("host"), QUICK, logging.getLogger(__name__)) as pool:
        yield pool


@pytest.fixture(autouse=True)
def own_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KOPE_HOME", str(tmp_path / "home"))


def _tune_tir(
    pool: Pool, target: Any, work_dir: Path, mod: tvm.IRModule | None = None, **options: Any
) -> Any:
    options = {"strategy": "kope", "seed": 7, "num_trials_per_iter": 6, **options}
    _forget_handlers()
    return ms.tune_tir(
        mod or _matmul(),
        target,
        str(work_dir),
        6,
        builder=kope_tvm.KopeBuilder(),
        runner=kope_tvm.KopeRunner(pool),
        **options,
    )


def _forget_handlers() -> None:
    """MetaSchedule's logging fails on a handler without a name, which pytest leaves there."""
    logging.getLogger("tvm.s_tir.meta_schedule").handlers.clear()


def _traces(database: Any) -> list[str]:
    return sorted(str(record.trace) for record in database.get_all_tuning_records())


def _states(memory: Path) -> Sequence[str]:
    with closing(sqlite3.connect(memory)) as connection:
        return [state for (state,) in connection.execute("SELECT state FROM decision ORDER BY id")]


def test_kope_is_known_to_metaschedule_in_a_fresh_process() -> None:
    code = (
        "import tvm; from tvm.s_tir import meta_schedule as ms; "
        "print(ms.SearchStrategy.create('kope')); print(tvm.tune)"
    )
    path = str(Path(kope_tvm.__file__).parents[1])
    shown = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    strategy, door = shown.stdout.splitlines()
    assert strategy == "s_tir.meta_schedule.PySearchStrategy"
    assert door.startswith("<function")


def test_one_seed_proposes_the_same_first_batch(pool: Pool, target: Any, tmp_path: Path) -> None:
    found = []
    for name in "ab":
        strategy = kope_tvm.KopeStrategy(memory=str(tmp_path / f"{name}.sqlite"))
        found.append(_traces(_tune_tir(pool, target, tmp_path / name, strategy=strategy)))
        assert len(_states(tmp_path / f"{name}.sqlite")) == 6
    assert len(found[0]) == 6
    assert found[0] == found[1]


def test_tune_tir_logs_into_its_work_dir_and_stock_readers_apply_it(
    pool: Pool, target: Any, tmp_path: Path
) -> None:
    _tune_tir(pool, target, tmp_path)
    logged = "".join(path.read_text() for path in (tmp_path / "logs").glob("*main.log"))
    assert "[kope] this runner may check nothing" in logged
    assert len(_states(tmp_path / "home" / "memory.sqlite")) == 6
    database = ms.database.JSONDatabase(work_dir=str(tmp_path))
    sch = ms.tir_integration.compile_tir(database, _matmul(), target)
    _check_matmul(tvm.compile(sch.mod, target=target))


def test_a_symbolic_shape_gets_no_trials_and_a_reason(
    pool: Pool, target: Any, tmp_path: Path
) -> None:
    n = te.var("n", dtype="int32")
    A = te.placeholder((n, 4), name="A")
    B = te.compute((n, 4), lambda i, j: te.exp(A[i, j]), name="B")
    mod = tvm.IRModule({"main": te.create_prim_func([A, B])})
    assert not _tune_tir(pool, target, tmp_path, mod).get_all_tuning_records()
    logged = "".join(path.read_text() for path in (tmp_path / "logs").glob("*main.log"))
    assert "[kope] not tunable, kept as compiled" in logged


def test_each_task_gets_a_clone_with_the_same_options(
    pool: Pool, target: Any, tmp_path: Path
) -> None:
    memory = tmp_path / "m.sqlite"
    two = tvm.IRModule({"a": _matmul(64)["main"], "b": _matmul(32)["main"]})
    _tune_tir(
        pool,
        target,
        tmp_path,
        two,
        num_trials_per_iter=3,
        strategy=kope_tvm.KopeStrategy(memory=str(memory)),
    )
    assert len(_states(memory)) == 6
    with closing(sqlite3.connect(memory)) as connection:
        names = {name for (name,) in connection.execute("SELECT DISTINCT task_name FROM decision")}
    assert names == {"a", "b"}


def test_what_kope_tunes_is_read_by_every_stock_reader(target: Any, tmp_path: Path) -> None:
    report = tvm.tune(
        Perceptron, "host", tmp_path / "work", 4, config=QUICK, memory=str(tmp_path / "m.sqlite")
    )
    assert report.trials == 4
    _check_relax_readers(tmp_path / "work", target, is_tuned=report.num_optimised > 0)
    compiled = kope_tvm.compile(Perceptron, "host", tmp_path / "work")
    assert len(compiled.coverage.hit) == report.num_optimised


def test_tune_relax_with_kope_is_read_by_every_stock_reader(
    pool: Pool, target: Any, tmp_path: Path
) -> None:
    _forget_handlers()
    ms.relax_integration.tune_relax(
        relax.get_pipeline("zero")(Perceptron), {}, target, str(tmp_path), 4,
        strategy="kope", builder=kope_tvm.KopeBuilder(), runner=kope_tvm.KopeRunner(pool), seed=3,
    )  # fmt: skip
    _check_relax_readers(tmp_path, target, is_tuned=True)


def test_the_stock_builder_and_runner_work_too(target: Any, tmp_path: Path) -> None:
    _forget_handlers()
    database = ms.tune_tir(_matmul(), target, str(tmp_path), 2, strategy="kope")
    assert len(database.get_all_tuning_records()) == 2


def test_an_operator_tuned_by_kope_is_read_by_compile_tir(target: Any, tmp_path: Path) -> None:
    kope_tvm.tune(MATMUL, "host", tmp_path, 4, config=QUICK, memory=str(tmp_path / "m.sqlite"))
    database = ms.database.JSONDatabase(work_dir=str(tmp_path))
    (workload,) = {str(one.workload.mod): one for one in database.get_all_tuning_records()}.values()
    sch = ms.tir_integration.compile_tir(database, workload.workload.mod, target)
    assert sch is not None
    _check_matmul(tvm.compile(sch.mod, target=target))


def test_a_second_tuning_starts_from_the_best_that_is_remembered(tmp_path: Path) -> None:
    memory = str(tmp_path / "m.sqlite")
    first = kope_tvm.tune(MATMUL, "host", tmp_path / "a", 10, config=QUICK, memory=memory)
    assert first.trials == 10
    best = _column(tmp_path / "a" / "experience.sqlite", "state", "secs > 0 ORDER BY secs LIMIT 1")
    kope_tvm.tune(MATMUL, "host", tmp_path / "b", 4, config=QUICK, memory=memory)
    again = tmp_path / "b" / "experience.sqlite"
    assert _column(again, "proposer", "1 ORDER BY id LIMIT 1") == ["experience"]
    assert _column(again, "state", "1 ORDER BY id LIMIT 1") == best


def _column(path: Path, name: str, where: str) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute(f"SELECT {name} FROM decision WHERE {where}")
        return [value for (value,) in rows]


def _check_relax_readers(work_dir: Path, target: Any, *, is_tuned: bool) -> None:
    database = ms.database.JSONDatabase(work_dir=str(work_dir))
    mod = relax.get_pipeline("zero")(Perceptron)
    with target, database:
        applied = relax.transform.MetaScheduleApplyDatabase()(mod)
    scheduled = [f for f in applied.functions.values() if "tirx.is_scheduled" in (f.attrs or {})]
    assert scheduled or not is_tuned
    executable = ms.relax_integration.compile_relax(database, Perceptron, target, {})
    machine = relax.VirtualMachine(executable, tvm.cpu())
    x, w = (
        np.random.default_rng(i).random(s, "float32") for i, s in enumerate([(8, 32), (32, 16)])
    )
    found = machine["main"](tvm.runtime.tensor(x), tvm.runtime.tensor(w)).numpy()
    np.testing.assert_allclose(found, np.maximum(x @ w, 0), rtol=1e-5)


def _check_matmul(executable: Any) -> None:
    a, b = (np.random.default_rng(i).random((N, N), "float32") for i in range(2))
    out = tvm.runtime.tensor(np.zeros((N, N), "float32"))
    executable.jit()["main"](tvm.runtime.tensor(a), tvm.runtime.tensor(b), out)
    np.testing.assert_allclose(out.numpy(), a @ b, rtol=1e-5)
