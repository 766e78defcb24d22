# SPDX-License-Identifier: Apache-2.0
"""Linalg through MLIR's own compiler: tuned transform scripts beside its default lowering.

Both are compiled at level 3 for this CPU and run on one thread. A script counts where it is right
on every set of inputs; the two are then timed in turns.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean, median

from kope_tvm.bench.wanted import Wanted
from kope_tvm.errors import UsageError
from kope_tvm.machine import load_target
from kope_tvm.mlir.execution import Job, execute
from kope_tvm.mlir.function import Function
from kope_tvm.mlir.script_proposers import ScriptTrial, Search
from kope_tvm.mlir.script_tuning import ScriptTuning, mlir_toolchain

MODULES = Path(__file__).parent / "mlir_suite"
_TARGET = "host"
_TURNS = 3
_REPEAT = 5


@dataclass(frozen=True)
class MlirResult:
    """One function's figures."""

    name: str
    default_secs: tuple[float, ...]
    tuned_secs: tuple[float, ...]
    """Empty where no script was right."""
    trials: int
    wrong: int
    """Scripts that computed something else."""
    proposal: str
    """The winner's."""

    @property
    def ratio(self) -> float:
        """How many times as fast; 0 where no script was right."""
        return median(self.default_secs) / median(self.tuned_secs) if self.tuned_secs else 0.0

    @property
    def noise(self) -> float:
        """Half the spread of the tuned times over their median."""
        if not self.tuned_secs:
            return 0.0
        spread = max(self.tuned_secs) - min(self.tuned_secs)
        return spread / 2 / median(self.tuned_secs)


@dataclass(frozen=True)
class MlirBench:
    """All functions, and what they were measured with."""

    toolchain: str
    machine: str
    trials: int
    results: tuple[MlirResult, ...]

    @property
    def geomean(self) -> float:
        ratios = [result.ratio for result in self.results if result.ratio]
        return geometric_mean(ratios) if ratios else math.nan


def run_mlir(wanted: Wanted) -> MlirBench:
    """Tune and time every module, or those that are named as parts."""
    target = load_target(wanted.target or _TARGET)
    results = []
    for path in _files(wanted):
        function = Function.of(path, target)
        results.append(_result(path.stem, function, wanted.trials, wanted.say))
    return MlirBench(mlir_toolchain(), target.key, wanted.trials, tuple(results))


def _files(wanted: Wanted) -> list[Path]:
    known = {path.stem: path for path in sorted(MODULES.glob("*.mlir"))}
    unknown = set(wanted.parts) - set(known)
    if unknown:
        raise UsageError(f"no part {', '.join(sorted(unknown))}; parts: {', '.join(known)}")
    return [path for name, path in known.items() if not wanted.parts or name in wanted.parts]


def _result(name: str, function: Function, trials: int, say: Callable[[str], None]) -> MlirResult:
    tuning = ScriptTuning(function, [Search(function)], None, run_id="bench")
    for trial in tuning.tune(trials):
        say(f"{name}: {_told(trial)}")
    best = tuning.best
    if best is None:
        secs = (function.proof.baseline_secs,)
        return MlirResult(name, secs, (), len(tuning.trials), len(tuning.trials), "")
    default, tuned = _in_turns(function, function.script(best.proposal))
    wrong = sum(1 for trial in tuning.trials if trial.measurement.code == "E_NUMERICS")
    text = best.proposal.text()
    return MlirResult(name, default, tuned, len(tuning.trials), wrong, text)


def _in_turns(function: Function, script: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Seconds of the default lowering and of the script, of several processes each."""
    default: list[float] = []
    tuned: list[float] = []
    sets = function.proof.sets[:1]
    for _ in range(_TURNS):
        for secs, words in ((default, None), (tuned, script)):
            done = execute(Job(function.text, words, repeat=_REPEAT), sets)
            secs.append(median(done.run_secs))
    return tuple(default), tuple(tuned)


def _told(trial: ScriptTrial) -> str:
    measured = trial.measurement
    outcome = f"{trial.secs * 1e3:.3g} ms" if measured.ok else f"{measured.code} {measured.error}"
    return f"{trial.proposal.origin.change}: {outcome}"
