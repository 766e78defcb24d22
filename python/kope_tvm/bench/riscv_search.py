# SPDX-License-Identifier: Apache-2.0
"""MetaSchedule's tuning loop on the simulated machine, with its own strategy or with kope's.

Builder and runner are the same for both, so that only what they propose differs. A search is told
every time as a stock runner tells it; its winner is the fastest that was also right.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tvm
from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms

from kope_tvm.bench.riscv_machine import Bench, compiled
from kope_tvm.errors import KopeError
from kope_tvm.schedule_error import TVM_ERRORS
from kope_tvm.strategy import KopeStrategy

_BATCH = 16
"""Trials a round: a search of 32 learns once."""


@dataclass
class Found:
    """What a search measured so far."""

    trials: int = 0
    failed: int = 0
    wrong: int = 0
    cycles: int = 0
    object_bytes: bytes = b""
    """Of the fastest right candidate; empty of none."""
    counters: str = ""
    reasons: list[str] = field(default_factory=list)

    def note(self, cycles: int, counters: str, object_bytes: bytes) -> None:
        """A right candidate."""
        if not self.object_bytes or cycles < self.cycles:
            self.cycles, self.counters, self.object_bytes = cycles, counters, object_bytes


def search(
    bench: Bench, target: Mapping[str, object], strategy: str, trials: int, seed: int
) -> Found:
    """Run a search of so many trials by a strategy of that name.

    TVM's feature extractor fails on scalable vectors, and the search with it: what is left of its
    trials is then ranked at random.
    """
    found = Found()
    for attempt, ranking in enumerate(("xgb", "random")):
        try:
            _tune(bench, target, strategy, trials - found.trials, seed + attempt, ranking, found)
        except TVM_ERRORS as error:
            found.reasons.append(f"the search ended: {str(error)[-160:]}")
            continue
        break
    return found


def _tune(
    bench: Bench,
    target: Mapping[str, object],
    strategy: str,
    trials: int,
    seed: int,
    ranking: str,
    found: Found,
) -> None:
    machine = tvm.target.Target(dict(target))
    with tempfile.TemporaryDirectory(prefix="kope-bench-") as folder, machine:
        chosen = strategy
        if strategy == "kope":
            memory = str(Path(folder) / "memory.sqlite")
            chosen = KopeStrategy(memory, seed, bench.spec)
        ms.tune_tir(
            bench.mod,
            machine,
            folder,
            max_trials_global=trials,
            num_trials_per_iter=_BATCH,
            builder=_Builder(target),
            runner=_Runner(bench, found),
            cost_model=ranking,
            strategy=chosen,
            num_tuning_cores=1,
            seed=seed,
        )


@derived_object
class _Builder(ms.builder.PyBuilder):
    """Compiles in this process."""

    def __init__(self, target: Mapping[str, object]) -> None:
        super().__init__()
        self.target = target

    def build(self, build_inputs: list[Any]) -> list[Any]:
        """An object file an input."""
        return [self._built(given.mod) for given in build_inputs]

    def _built(self, mod: tvm.IRModule) -> Any:
        try:
            made = compiled(mod, self.target)
        except TVM_ERRORS as error:
            return ms.builder.BuilderResult(None, str(error)[:200])
        path = Path(tempfile.mkdtemp(prefix="kope-candidate-")) / "function.o"
        path.write_bytes(made)
        return ms.builder.BuilderResult(str(path), None)


@derived_object
class _Runner(ms.runner.PyRunner):
    """Runs each object on the simulated machine."""

    def __init__(self, bench: Bench, found: Found) -> None:
        super().__init__()
        self.bench = bench
        self.found = found

    def run(self, runner_inputs: list[Any]) -> list[Any]:
        """Futures that are all done."""
        return [
            _Done(_ran(self.bench, self.found, Path(given.artifact_path).read_bytes()))
            for given in runner_inputs
        ]


def _ran(bench: Bench, found: Found, object_bytes: bytes) -> Any:
    found.trials += 1
    try:
        ran = bench.run(object_bytes)
    except KopeError as error:
        found.failed += 1
        found.reasons.append(str(error)[:160])
        return ms.runner.RunnerResult(None, str(error))
    if ran.wrong:
        found.wrong += 1
        found.reasons.append(ran.wrong[:160])
    else:
        found.note(ran.cycles, ran.counters, object_bytes)
    return ms.runner.RunnerResult([ran.cycles / bench.spec.facts.clock_hz], None)


@derived_object
class _Done(ms.runner.PyRunnerFuture):
    """The future of a run that was made."""

    def __init__(self, result: Any) -> None:
        super().__init__()
        self._result = result

    def done(self) -> bool:
        return True

    def result(self) -> Any:
        return self._result
