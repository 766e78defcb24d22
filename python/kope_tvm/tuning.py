# SPDX-License-Identifier: Apache-2.0
"""The short door: tune a model, an IRModule or an operator, resume it, and remember."""

from __future__ import annotations

import logging
import random
import time
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING

from kope_tvm import registry
from kope_tvm.allocation import Allocation
from kope_tvm.candidate import Candidate
from kope_tvm.context import Trial
from kope_tvm.errors import UsageError
from kope_tvm.finals import finals, remeasured
from kope_tvm.gates import load_gates
from kope_tvm.ledger import Ledger
from kope_tvm.machine import load_target
from kope_tvm.measure.config import MeasureConfig
from kope_tvm.measure.pool import Pool
from kope_tvm.memory.experience import Experience
from kope_tvm.memory.memory import Memory
from kope_tvm.model import Model, extract_tasks, load_model, refused_functions
from kope_tvm.outcome import Measurement, Verdict
from kope_tvm.panel import Panel
from kope_tvm.progress import Progress, SilentProgress
from kope_tvm.proposal import proposal_text
from kope_tvm.report import TuneReport, task_report
from kope_tvm.round import Run, Tuning
from kope_tvm.seam import Gate, Proposer
from kope_tvm.seat import Seat
from kope_tvm.target import TargetSpec
from kope_tvm.task import Task
from kope_tvm.toolchain import toolchain
from kope_tvm.versions import check_versions
from kope_tvm.workbench import Workbench, make_task, proposal_of, replayed

if TYPE_CHECKING:
    from tvm import IRModule

    from kope_tvm.extraction import Tunable

_FIRST_ROUND = 4

_HOPELESS = 8.0
"""A candidate so many times slower than the incumbent is timed by one call."""

_LOG = logging.getLogger("kope_tvm")

_WITHOUT_MODEL = ("experience", "rules", "sketch")
"""Who proposes where there is no LLM: what was measured is asked before what is guessed."""


def tune(
    mod_or_onnx_path: str | Path | IRModule,
    target: str | TargetSpec,
    work_dir: str | Path,
    max_trials_global: int,
    *,
    max_trials_per_task: int | None = None,
    num_trials_per_iter: int = 16,
    proposer: str = "auto",
    memory: str | None = None,
    seed: int | None = None,
    dims: Mapping[str, int] | None = None,
    config: MeasureConfig | None = None,
    progress: Progress | None = None,
) -> TuneReport:
    """Tune every function of a model for a target; the same call again resumes.

    `memory` is a SQLAlchemy URL or a path; None is the user's own memory. Raises UsageError for a
    wrong call before anything is written, KopeError where a device or a disk fails; what was
    measured before is kept.
    """
    started = time.perf_counter()
    check_versions()
    spec = target if isinstance(target, TargetSpec) else load_target(target)
    names = proposer_names(proposer)
    run = Run(uuid.uuid4().hex[:12], _seed(seed), toolchain())
    with ExitStack() as opened:
        pool = opened.enter_context(Pool(spec, config or MeasureConfig(), _LOG))
        pool.warm_up()
        found, refused = _tunable(load_model(mod_or_onnx_path, dims=dims or {}), spec)
        tasks = [make_task(name, mod, spec, weight) for name, mod, weight in found]
        remembered = opened.enter_context(Memory.open(memory))
        remembered.note_machine(spec)
        ledger = opened.enter_context(closing(Ledger(Path(work_dir), spec, remembered)))
        ledger.notices += refused
        return Session(tasks, run, names, ledger, pool, remembered).tune(
            max_trials_global,
            max_trials_per_task or max_trials_global,
            num_trials_per_iter,
            progress or SilentProgress(),
            started,
        )


def _seed(seed: int | None) -> int:
    """TVM takes positive seeds only."""
    return random.randrange(1, 2**31) if seed is None else max(1, seed)


def _tunable(model: Model, spec: TargetSpec) -> tuple[list[Tunable], list[str]]:
    """The functions to tune, and a notice for each of the others.

    Raises UsageError where there are none.
    """
    found = extract_tasks(model, spec)
    notices = [f"{name}: {reason}" for name, reason in map(astuple, refused_functions(model, spec))]
    if not found:
        why = "; ".join(notices) or "it calls no functions of its own"
        raise UsageError(f"{model.name}: nothing to tune: {why}")
    return found, notices


def proposer_names(proposer: str) -> tuple[str, ...]:
    """The proposers that an option of `--proposer` stands for.

    Raises UsageError for a name that is not registered.
    """
    if proposer in {"auto", "experience"}:
        return _WITHOUT_MODEL
    known = registry.names("proposers")
    if proposer not in known:
        raise UsageError(
            f"unknown proposer {proposer!r}; known: auto, {', '.join(known)}; "
            "'auto' and 'experience' need no model"
        )
    return tuple(dict.fromkeys((proposer, *_WITHOUT_MODEL)))


class Session:
    """One call of `tune`: the tasks, who proposes for them, and where outcomes go."""

    def __init__(
        self,
        tasks: Sequence[Task],
        run: Run,
        names: Sequence[str],
        ledger: Ledger,
        pool: Pool,
        remembered: Memory,
    ) -> None:
        self._ledger = ledger
        self.pool = pool
        self._benches = [Workbench(task, seed=run.seed) for task in tasks]
        gates = load_gates()
        self._tunings = [
            self._tuning(bench, run, names, gates, remembered) for bench in self._benches
        ]
        self._measure_secs = 0.0
        self._first_trial_secs = 0.0

    def tune(
        self, max_trials: int, per_task: int, batch: int, progress: Progress, started: float
    ) -> TuneReport:
        """Run rounds until the trials are used up or nothing is left to try."""
        done = [len(self._measured(tuning)) for tuning in self._tunings]
        resumed = sum(done)
        progress.start(max_trials)
        allocation = Allocation(self._tunings)
        trials = failed = 0
        measured: set[int] = set()
        try:
            while (left := max_trials - resumed - trials) > 0:
                index = allocation.next()
                if index is None:
                    break
                tuning = self._tunings[index]
                wanted = min(self._round_size(index, batch, left), per_task - done[index])
                if wanted <= 0:
                    allocation.close(index)
                    continue
                self._ensure_baseline(index)
                measured.add(index)
                before, count = tuning.best_secs, 0
                for trial in self._round(index, wanted, left):
                    self._first_trial_secs = self._first_trial_secs or time.perf_counter() - started
                    count, trials, done[index] = count + 1, trials + 1, done[index] + 1
                    failed += not (trial.measurement and trial.measurement.ok)
                    progress.trial(
                        tuning.task.name, trial.measurement, tuning.best_secs, resumed + trials
                    )
                allocation.credit(index, before, count)
            self._settle(measured)
        finally:
            progress.close()
        return self._report(trials, failed, started)

    def _round_size(self, index: int, batch: int, left: int) -> int:
        """Small at first, that the first guesses of every task are seen before any is searched."""
        fresh = not self._measured(self._tunings[index])
        fair = max(_FIRST_ROUND, left // len(self._tunings))
        return min(batch, left, _FIRST_ROUND if fresh else fair)

    def _settle(self, measured: Collection[int]) -> None:
        """Measure each task's fastest again in turns, and let those times decide.

        Where nothing beats the untuned function, it goes on record as the best there is.

        What an earlier call settled is left alone where this one measured nothing new.
        """
        for index, (tuning, bench) in enumerate(zip(self._tunings, self._benches, strict=True)):
            if index not in measured and self._ledger.is_settled(tuning.task):
                continue
            times: dict[str, tuple[float, ...]] = {}
            for trial, run_secs in finals(tuning.trials, bench.apply, self._device(index)):
                tuning.trials[tuning.trials.index(trial)] = remeasured(trial, run_secs)
                times[proposal_text(trial.proposal)] = run_secs
            self._ledger.settle(tuning.task, times)
            if tuning.baseline_secs < tuning.best_secs:
                self._ledger.keep_baseline(tuning.task, bench.untouched, tuning.baseline_secs)

    def _round(self, index: int, wanted: int, left: int) -> Iterator[Trial]:
        return self._tunings[index].run_round(self._device(index), wanted, left)

    def _device(self, index: int) -> _PoolDevice:
        return _PoolDevice(self, self._benches[index], self._tunings[index].best_secs)

    def _ensure_baseline(self, index: int) -> None:
        tuning = self._tunings[index]
        if not tuning.baseline_secs:
            began = time.perf_counter()
            measured = self.pool.baseline(self._benches[index].mod)
            tuning.baseline_secs = measured.secs if measured.ok else 0.0
            self._measure_secs += time.perf_counter() - began

    def _tuning(
        self,
        bench: Workbench,
        run: Run,
        names: Sequence[str],
        gates: Sequence[Gate],
        remembered: Memory,
    ) -> Tuning:
        proposers: dict[str, Proposer] = {
            name: registry.load("proposers", name)(Seat(bench, remembered)) for name in names
        }
        ledger = self._ledger
        tuning = Tuning(
            bench.task, run, Panel(proposers), bench.apply, gates, ledger.recall, ledger.record
        )
        ledger.open_workload(bench.mod, bench.task)
        ledger.reconcile(bench.task, lambda experience: replayed(bench, experience))
        _resume(tuning, ledger.past(bench.task))
        return tuning

    @staticmethod
    def _measured(tuning: Tuning) -> list[Trial]:
        return [trial for trial in tuning.trials if trial.measurement is not None]

    def _report(self, trials: int, failed: int, started: float) -> TuneReport:
        return TuneReport(
            tasks=tuple(task_report(tuning) for tuning in self._tunings),
            trials=trials,
            failed=failed,
            wall_secs=time.perf_counter() - started,
            measure_secs=self._measure_secs,
            first_trial_secs=self._first_trial_secs,
            work_dir=str(self._ledger.work_dir),
            notices=tuple(self._ledger.notices),
        )

    def spend(self, secs: float) -> None:
        """Count time spent building and running."""
        self._measure_secs += secs


class _PoolDevice:
    """The measuring pool as `round.py` sees it; keeps count of the time it takes."""

    def __init__(self, session: Session, bench: Workbench, best_secs: float) -> None:
        self._session = session
        self._bench = bench
        self._hopeless_secs = best_secs * _HOPELESS if best_secs < float("inf") else None

    def measure(self, candidates: Sequence[Candidate]) -> Iterator[tuple[int, Measurement]]:
        mods = [candidate.sch.mod for candidate in candidates]
        began = time.perf_counter()
        found_all = self._session.pool.measure(
            mods, reference=self._bench.mod, hopeless_secs=self._hopeless_secs
        )
        for found in found_all:
            self._session.spend(time.perf_counter() - began)
            yield found
            began = time.perf_counter()


def _resume(tuning: Tuning, past: Sequence[Experience]) -> None:
    """Put what this work_dir knows where a run that never stopped would have it."""
    for experience in past:
        measured = None
        if experience.accepted:
            measured = Measurement(
                experience.run_secs, error=experience.reason, code=experience.code
            )
        verdict = Verdict("work_dir", experience.accepted, experience.code, experience.reason)
        tuning.trials.append(Trial(experience.state, proposal_of(experience), verdict, measured))
        tuning.tried.add(experience.state)
        tuning.baseline_secs = tuning.baseline_secs or experience.baseline_secs
        tuning.round_no = max(tuning.round_no, experience.round_no)
