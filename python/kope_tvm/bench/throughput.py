# SPDX-License-Identifier: Apache-2.0
"""Trials per minute: kope's measuring pool beside stock's builder and runner, in one run.

`python -m kope_tvm.bench.throughput [--batch 16] [--json FILE]`. All take the same random
candidates of MetaSchedule's own design space and the same EvaluatorConfig, and have measured before
the clock starts; kope also checks every output. Stock runs as it is where kope is not installed,
and once more with the quick import of tensor intrinsics that kope's plugin gives it.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import tvm
from tvm.s_tir import meta_schedule as ms

from kope_tvm.machine import load_target, tvm_target
from kope_tvm.measure import MeasureConfig, Pool
from kope_tvm.model import extract_tasks, load_model
from kope_tvm.target import TargetSpec

_SEED = 7
_WITHOUT_PLUGIN = """\
import importlib.metadata as metadata
_all = metadata.entry_points
def entry_points(**params):
    return metadata.EntryPoints(e for e in _all(**params) if e.value != "kope_tvm.plugin:autoload")
metadata.entry_points = entry_points
"""
"""A sitecustomize: MetaSchedule's workers must not find the plugin either."""


@dataclass(frozen=True)
class Batch:
    """One batch, built and timed."""

    contender: str
    secs: float
    build_secs: float
    """Of `secs`, before the first candidate was timed; 0 where that was not asked."""
    measured: int
    """Candidates that have a time."""
    best_secs: float

    @property
    def per_minute(self) -> float:
        return 60 * self.measured / self.secs


@dataclass(frozen=True)
class Setting:
    """What all contenders have in common."""

    spec: str
    batch: int
    min_repeat_ms: int
    number: int = 3
    repeat: int = 1


def random_candidates(operator: str, spec: TargetSpec, count: int) -> list[str]:
    """The untuned module and `count` schedules of it, as JSON."""
    ((_, mod, _),) = extract_tasks(load_model(operator), spec)
    context = ms.TuneContext(
        mod=mod,
        target=tvm_target(spec),
        space_generator="post-order-apply",
        search_strategy="replay-trace",
        rand_state=_SEED,
        num_threads=1,
    )
    context.pre_tuning(count, count, context.generate_design_space())
    found = context.generate_measure_candidates() or []
    return [tvm.ir.save_json(one) for one in (mod, *(each.sch.mod for each in found))]


def measure_stock(contender: str, modules: Sequence[str], setting: Setting) -> Batch:
    """A LocalBuilder, with the new pool that it starts for every batch, and a warm LocalRunner."""
    spec = load_target("host")
    mods = [tvm.ir.load_json(module) for module in modules]
    inputs = [ms.builder.BuilderInput(mod, tvm_target(spec)) for mod in mods]
    config = ms.runner.EvaluatorConfig(setting.number, setting.repeat, setting.min_repeat_ms)
    builder, runner = ms.builder.LocalBuilder(), ms.runner.LocalRunner(evaluator_config=config)
    started = time.perf_counter()
    built = builder.build(inputs)
    build_secs = time.perf_counter() - started
    runs = [
        ms.runner.RunnerInput(one.artifact_path, "cpu", ms.arg_info.ArgInfo.from_entry_func(mod))
        for one, mod in zip(built, mods, strict=True)
        if one.artifact_path
    ]
    runner.run(runs[:1])[0].result()
    started = time.perf_counter()
    results = [future.result() for future in runner.run(runs)]
    secs = build_secs + time.perf_counter() - started
    times = [float(median(map(float, one.run_secs))) for one in results if one.run_secs]
    return Batch(contender, secs, build_secs, len(times), min(times, default=0.0))


def measure_kope(pool: Pool, modules: Sequence[str]) -> Batch:
    """A warm pool; the untuned module, the first, is what the others are checked with."""
    pool.baseline(modules[0])
    started = time.perf_counter()
    outcomes = [outcome for _, outcome in pool.measure(modules[1:], reference=modules[0])]
    secs = time.perf_counter() - started
    times = [outcome.secs for outcome in outcomes if outcome.ok]
    return Batch("kope", secs, 0.0, len(times), min(times, default=0.0))


def compare_throughput(setting: Setting) -> list[Batch]:
    """Turns of kope before, between and after the two forms of stock."""
    spec = load_target("host")
    os.environ["TVM_NUM_THREADS"] = str(spec.facts.num_cores)
    modules = random_candidates(setting.spec, spec, setting.batch)
    config = MeasureConfig(setting.number, setting.repeat, setting.min_repeat_ms)
    with (
        tempfile.TemporaryDirectory(prefix="kope-throughput-") as folder,
        Pool(spec, config, logging.getLogger("kope_tvm")) as pool,
    ):
        turns = [measure_kope(pool, modules)]
        for contender in ("stock", "stock, quick import"):
            turns.append(_stock_process(contender, modules, setting, Path(folder)))
            turns.append(measure_kope(pool, modules))
    return turns


def _stock_process(contender: str, modules: Sequence[str], setting: Setting, folder: Path) -> Batch:
    file = folder / "batch.json"
    file.write_text(json.dumps([contender, modules[1:], asdict(setting)]), encoding="utf-8")
    environment = dict(os.environ)
    if contender == "stock":
        (folder / "sitecustomize.py").write_text(_WITHOUT_PLUGIN, encoding="utf-8")
        paths = [str(folder), *filter(None, [environment.get("PYTHONPATH")])]
        environment["PYTHONPATH"] = os.pathsep.join(paths)
    command = [sys.executable, "-m", "kope_tvm.bench.throughput", "--stock", str(file)]
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return Batch(**json.loads(done.stdout.splitlines()[-1]))


def ratios(turns: Sequence[Batch]) -> Mapping[str, float]:
    """How many times the trials per minute of each form of stock kope makes."""
    kope = median(turn.per_minute for turn in turns if turn.contender == "kope")
    return {
        turn.contender: kope / turn.per_minute
        for turn in turns
        if turn.contender != "kope" and turn.measured
    }


def main() -> None:
    """Print ratios first, then every turn."""
    parser = argparse.ArgumentParser(prog="python -m kope_tvm.bench.throughput")
    parser.add_argument("--spec", default="op:matmul:m=512,n=512,k=512,dtype=float32")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--min-repeat-ms", type=int, default=100, help="stock's default is 100")
    parser.add_argument("--json", type=Path, help="keep the run in a file")
    parser.add_argument("--stock", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.stock:
        contender, modules, fields = json.loads(given.stock.read_text(encoding="utf-8"))
        batch = measure_stock(contender, modules, Setting(**fields))
        sys.stdout.write(json.dumps(asdict(batch)) + "\n")
        return
    setting = Setting(given.spec, given.batch, given.min_repeat_ms)
    turns = compare_throughput(setting)
    sys.stdout.write(_text(setting, turns))
    if given.json:
        given.json.write_text(json.dumps(_plain(setting, turns), indent=1) + "\n", encoding="utf-8")


def _text(setting: Setting, turns: Sequence[Batch]) -> str:
    lines = [f"{ratio:6.1f} times {peer}" for peer, ratio in ratios(turns).items()]
    lines += [
        f"{turn.per_minute:6.0f} trials a minute: {turn.contender}, "
        f"{turn.measured} of {setting.batch} in {turn.secs:.1f} s"
        for turn in turns
    ]
    return "\n".join(lines) + "\n"


def _plain(setting: Setting, turns: Sequence[Batch]) -> dict[str, Any]:
    return {
        "setting": asdict(setting),
        "ratios": ratios(turns),
        "turns": [{**asdict(turn), "per_minute": turn.per_minute} for turn in turns],
    }


if __name__ == "__main__":
    main()
