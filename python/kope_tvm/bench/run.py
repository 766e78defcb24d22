# SPDX-License-Identifier: Apache-2.0
"""Runs a suite: tune with every contender that tunes, then time them all in turns."""

from __future__ import annotations

import json
import platform
import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path

import tvm

from kope_tvm.bench.contender import in_turns
from kope_tvm.bench.result import Bench, Operator
from kope_tvm.bench.stock import tune_stock
from kope_tvm.errors import UsageError
from kope_tvm.learned import Learned
from kope_tvm.machine import load_target
from kope_tvm.memory.experience import Experience
from kope_tvm.memory.store import Store
from kope_tvm.model import extract_tasks, load_model
from kope_tvm.operators import QUICK_SUITE, parse_operator
from kope_tvm.report import TuneReport
from kope_tvm.target import TargetSpec
from kope_tvm.tuning import tune
from kope_tvm.workbench import Workbench, make_task, replayed

SUITES: Mapping[str, tuple[str, ...]] = {"quick": QUICK_SUITE}
PEERS = ("metaschedule", "onnxruntime", "untuned")

_EARLY_TRIALS = 8
_WARM_TRIALS = 4


def run_bench(
    suite: str,
    against: Sequence[str],
    *,
    target: str = "host",
    trials: int = 32,
    seed: int = 1,
    say: Callable[[str], None] = lambda text: None,
) -> Bench:
    """Bench kope on a suite, or on one operator spec, against peers.

    Raises UsageError for an unknown suite or peer.
    """
    specs = (suite,) if suite.startswith("op:") else SUITES.get(suite)
    unknown = [peer for peer in against if peer not in PEERS]
    if specs is None or unknown:
        raise UsageError(
            f"unknown {'suite ' + repr(suite) if specs is None else 'peer ' + repr(unknown[0])}; "
            f"suites: {', '.join(SUITES)} or an op:... spec; peers: {', '.join(PEERS)}"
        )
    spec = load_target(target)
    operators = []
    for operator in specs:
        say(operator)
        with tempfile.TemporaryDirectory(prefix="kope-bench-") as folder:
            operators.append(_bench_operator(operator, against, spec, trials, seed, Path(folder)))
    return Bench(suite, _command(), _now(), versions(), asdict(spec.facts), tuple(operators))


def _bench_operator(
    operator: str, against: Sequence[str], spec: TargetSpec, trials: int, seed: int, folder: Path
) -> Operator:
    ((name, mod, weight),) = extract_tasks(load_model(operator), spec)
    bench = Workbench(make_task(name, mod, spec, weight))
    memory = str(folder / "memory.sqlite")
    cold = tune(operator, spec, folder / "cold", trials, memory=memory, seed=seed)
    warm = tune(operator, spec, folder / "warm", _WARM_TRIALS, memory=memory, seed=seed + 1)
    files = {
        "kope": settled_module(bench, folder / "cold"),
        f"kope@{_EARLY_TRIALS}": best_module(bench, folder / "cold", _EARLY_TRIALS),
        f"kope, warm@{_WARM_TRIALS}": settled_module(bench, folder / "warm"),
    }
    tune_secs = {"kope": cold.wall_secs, "kope, warm": warm.wall_secs}
    if "metaschedule" in against:
        files["metaschedule"] = folder / "stock.json"
        began = time.perf_counter()
        tune_stock(operator, spec.name, trials, seed, folder / "stock", files["metaschedule"])
        tune_secs["metaschedule"] = time.perf_counter() - began
    if "onnxruntime" in against:
        files["onnxruntime"] = folder / "operator.onnx"
        files["onnxruntime"].write_bytes(parse_operator(operator).onnx())
    files["untuned"] = best_module(bench, folder / "cold", 0)
    return _operator(operator, in_turns(files, spec.name, spec.facts.num_cores), tune_secs, cold)


def _operator(
    spec: str,
    run_secs: Mapping[str, tuple[float, ...]],
    tune_secs: Mapping[str, float],
    cold: TuneReport,
) -> Operator:
    return Operator(
        spec=spec,
        run_secs=run_secs,
        tune_secs=tune_secs,
        trials={"kope": cold.trials},
        failed={"kope": cold.failed},
        own_share=cold.own_secs / cold.wall_secs,
        first_trial_secs=cold.first_trial_secs,
    )


def settled_module(bench: Workbench, work_dir: Path) -> Path:
    """What `kope compile` would take from a work_dir, as JSON."""
    best, _ = Learned.open(work_dir, bench.tvm_target).apply(bench.mod)
    file = work_dir / "settled.json"
    file.write_text(tvm.ir.save_json(best), encoding="utf-8")
    return file


def best_module(bench: Workbench, work_dir: Path, first: int) -> Path:
    """The fastest of a work_dir's first trials as JSON; of none, the untuned module."""
    best = _fastest(work_dir, first)
    candidate = replayed(bench, best) if best is not None else None
    chosen = candidate.sch.mod if candidate is not None else bench.mod
    file = work_dir / f"best-of-{first}.json"
    file.write_text(tvm.ir.save_json(chosen), encoding="utf-8")
    return file


def _fastest(work_dir: Path, first: int) -> Experience | None:
    journal = Store.open(str(work_dir / "experience.sqlite"))
    past = sorted(journal.experiences(), key=lambda one: one.at)
    journal.close()
    measured = [one for one in past if one.accepted][:first]
    right = [one for one in measured if one.run_secs]
    return min(right, key=lambda one: sorted(one.run_secs)[len(one.run_secs) // 2], default=None)


def _command() -> str:
    return shlex.join(["kope", *sys.argv[1:]])


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def versions() -> dict[str, str]:
    """Of what a figure depends on."""
    packages = ("kope-tvm", "apache-tvm", "apache-tvm-ffi", "onnxruntime", "numpy", "xgboost")
    found = {"python": platform.python_version()}
    for package in packages:
        try:
            found[package] = version(package)
        except ImportError:
            continue
    return found


def write_json(bench: Bench, file: Path) -> None:
    """Keep a run with its command and versions."""
    file.write_text(json.dumps(bench.as_json(), indent=1) + "\n", encoding="utf-8")
