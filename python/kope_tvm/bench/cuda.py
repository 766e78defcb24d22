# SPDX-License-Identifier: Apache-2.0
"""The GPU suite: kope's kernels beside torch's compiler and stock MetaSchedule, one by one.

An operator's result is kept as it comes: the same command goes on where it was stopped.
"""

from __future__ import annotations

import json
import os
import select
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from kope_tvm import registry
from kope_tvm.bench.cuda_pairs import PAIRS, Pair
from kope_tvm.bench.cuda_result import KOPE, STOCK, CudaBench, Line
from kope_tvm.bench.versions import versions
from kope_tvm.bench.wanted import Wanted
from kope_tvm.errors import KopeError, UsageError

TARGET = "cuda-h200"
PEERS = ("torch-compile", STOCK)
AHEAD = 2
"""Operators that torch compiles while others are tuned."""
_KNOWING = ("experience", "rules", "algebra")
"""Who proposes where a rule knows the function: MetaSchedule's own search takes longer to think of
candidates than the device takes to time them.
"""
STOCK_SECS = 240.0
TURNS_SECS = 120.0


class Opponent:
    """The process that holds torch's form of one operator."""

    def __init__(self, pair: Pair, seed: int, target: str, log: Path) -> None:
        self.pair = pair
        self._is_ready = False
        self._log = log.open("a")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "kope_tvm.bench.cuda_contender", pair.name, str(seed)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env=dict(os.environ, KOPE_BENCH_TARGET=target),
        )

    def wait(self) -> None:
        """Until torch has compiled: nothing else shall compute while calls are timed."""
        out = self._process.stdout
        if out is not None and not self._is_ready and select.select([out], [], [], TURNS_SECS)[0]:
            out.readline()
            self._is_ready = True

    def contest(self, files: Mapping[str, Path]) -> dict[str, Any]:
        """Its answer; KopeError where it died."""
        with suppress(subprocess.TimeoutExpired, BrokenPipeError):
            asked = json.dumps({name: str(file) for name, file in files.items()})
            said, _ = self._process.communicate(asked + "\n", timeout=TURNS_SECS)
            lines = said.strip().splitlines()
            if lines:
                found: dict[str, Any] = json.loads(lines[-1])
                return found
        self.close()
        raise KopeError(f"{self.pair.name}: torch's process ended early; see {self._log.name}")

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        self._log.close()


@dataclass(frozen=True)
class Tuned:
    """What a tuner made of one operator."""

    file: Path | None
    secs: float
    trials: int = 0
    failed: int = 0
    space: str = ""
    notes: tuple[str, ...] = field(default_factory=tuple)


def run_cuda(wanted: Wanted, work: Path) -> CudaBench:
    """Bench the parts that are wanted, all by default; `work` keeps what is done."""
    pairs = _chosen(wanted.parts)
    peers = _peers(wanted.against)
    target = wanted.target or TARGET
    lines: list[Line] = []
    with ExitStack() as stack:
        todo = [pair for pair in pairs if not _kept(work, pair).is_file()]
        opponents: dict[str, Opponent] = {}

        def start(pair: Pair) -> None:
            made = Opponent(pair, wanted.seed, target, work / f"{pair.name}.log")
            opponents[pair.name] = made
            stack.callback(made.close)

        for at, pair in enumerate(todo):
            for ahead in todo[at : at + 1 + AHEAD]:
                if ahead.name not in opponents:
                    start(ahead)
            line = _line(pair, opponents, wanted, peers, target, work)
            _kept(work, pair).write_text(json.dumps(asdict(line)), encoding="utf-8")
            wanted.say(_told(line))
    for pair in pairs:
        with suppress(OSError):
            lines.append(Line(**json.loads(_kept(work, pair).read_text(encoding="utf-8"))))
    return CudaBench(_command(), _now(), versions() | _torch(), _machine(target), tuple(lines))


def _line(
    pair: Pair,
    opponents: Mapping[str, Opponent],
    wanted: Wanted,
    peers: Sequence[str],
    target: str,
    work: Path,
) -> Line:
    tuned = {KOPE: _tuned_by_kope(pair, wanted, target, work)}
    if STOCK in peers:
        tuned[STOCK] = _tuned_by_stock(pair, wanted, target, work)
    files = {name: each.file for name, each in tuned.items() if each.file is not None}
    for opponent in opponents.values():
        opponent.wait()
    try:
        found = opponents[pair.name].contest(files)
    except KopeError as error:
        found = _no_contest(str(error))
    notes = {name: "; ".join(each.notes) for name, each in tuned.items() if each.notes}
    return Line(
        pair.name,
        pair.num_steps,
        found["turns"],
        found["in_a_row"],
        found["errors"],
        found["failed"],
        notes,
        {name: each.secs for name, each in tuned.items()},
        {name: each.trials for name, each in tuned.items()},
        {name: each.failed for name, each in tuned.items()},
        found["compile_secs"],
        found["clocks"],
        tuned[KOPE].space,
    )


def _no_contest(why: str) -> dict[str, Any]:
    nothing: dict[str, Any] = {"turns": {}, "in_a_row": {}, "errors": {}}
    return {**nothing, "failed": {"torch-compile": why}, "compile_secs": 0.0, "clocks": ""}


def _tuned_by_kope(pair: Pair, wanted: Wanted, target: str, work: Path) -> Tuned:
    import tvm

    from kope_tvm.learned import Learned
    from kope_tvm.machine import load_target, tvm_target
    from kope_tvm.tuning import tune
    from kope_tvm.workbench import Workbench, make_task

    spec, mod, folder = load_target(target), pair.module(), work / f"{pair.name}.kope"
    began = time.perf_counter()
    memory = str(work / "memory.sqlite")
    options: dict[str, Any] = {"proposer": "experience", "memory": memory, "seed": wanted.seed}
    if Workbench(make_task(pair.name, mod, spec)).rule_spaces:
        options["seats"] = {name: registry.load("proposers", name) for name in _KNOWING}
    try:
        report = tune(mod, spec, folder, wanted.trials, **options)
    except KopeError as error:
        return Tuned(None, time.perf_counter() - began, notes=(str(error)[:300],))
    secs = time.perf_counter() - began
    (task,) = report.tasks
    applied, coverage = Learned.open(folder, tvm_target(spec)).apply(mod)
    file = work / f"{pair.name}.kope.json"
    file.write_text(tvm.ir.save_json(applied), encoding="utf-8")
    counts = (report.trials, report.failed, task.best_space if coverage.hit else "default")
    refused = ", ".join(f"{number} {code}" for code, number in task.refusals)
    told = f"measuring {report.measure_secs:.1f} s; refused: {refused or 'none'}"
    return Tuned(file, secs, *counts, notes=(told,))


def _tuned_by_stock(pair: Pair, wanted: Wanted, target: str, work: Path) -> Tuned:
    import tvm

    model, out = work / f"{pair.name}.json", work / f"{pair.name}.stock.json"
    model.write_text(tvm.ir.save_json(pair.module()), encoding="utf-8")
    folder = work / f"{pair.name}.stock"
    folder.mkdir(exist_ok=True)
    asked = [str(model), target, str(wanted.trials), str(wanted.seed), str(folder), str(out)]
    began = time.perf_counter()
    with (folder / "stock.log").open("w") as log, suppress(subprocess.TimeoutExpired):
        subprocess.run(
            [sys.executable, "-m", "kope_tvm.bench.stock", *asked],
            check=False,
            timeout=STOCK_SECS,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    secs = time.perf_counter() - began
    if not out.is_file():
        return Tuned(None, secs, wanted.trials, notes=(f"nothing within {secs:.0f} s",))
    return Tuned(out, secs, wanted.trials)


def _chosen(parts: Sequence[str]) -> list[Pair]:
    known = {pair.name: pair for pair in PAIRS}
    if unknown := [part for part in parts if part not in known]:
        raise UsageError(f"unknown part {unknown[0]!r} of suite cuda; parts: {', '.join(known)}")
    return [pair for pair in PAIRS if not parts or pair.name in parts]


def _peers(against: Sequence[str] | None) -> tuple[str, ...]:
    peers = tuple(against) if against is not None else PEERS[:1]
    if unknown := [peer for peer in peers if peer not in PEERS]:
        raise UsageError(f"unknown peer {unknown[0]!r} of suite cuda; peers: {', '.join(PEERS)}")
    if find_spec("torch") is None:
        raise UsageError("suite cuda compares with torch: pip install torch")
    return peers


def _kept(work: Path, pair: Pair) -> Path:
    return work / f"{pair.name}.line.json"


def _told(line: Line) -> str:
    micros = {name: f"{line.secs(name) * 1e6:.1f} us" for name in line.turns}
    spent = f"tuned in {line.tune_secs[KOPE]:.1f} s, {line.num_failed[KOPE]} failed"
    told = f"{dict(line.notes)}; {dict(line.failed)}"
    return f"{line.name}: {line.over_torch:.2f}x; {micros}; {spent}; {told}"


def _command() -> str:
    return shlex.join(["kope", *sys.argv[1:]])


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def _torch() -> dict[str, str]:
    import torch

    return {"torch": str(torch.__version__), "cuda": str(torch.version.cuda)}


def _machine(target: str) -> dict[str, Any]:
    import torch

    from kope_tvm.machine import load_target

    name = torch.cuda.get_device_name() if torch.cuda.is_available() else "none"
    return {"device": name, "cores": os.cpu_count(), **asdict(load_target(target).facts)}


def kept_folder(json_file: Path | None) -> Path:
    """Where a run keeps what is done: beside its JSON file, or nowhere in particular."""
    if json_file is None:
        return Path(tempfile.mkdtemp(prefix="kope-cuda-"))
    folder = json_file.with_name(f"{json_file.stem}.parts")
    folder.mkdir(parents=True, exist_ok=True)
    return folder
