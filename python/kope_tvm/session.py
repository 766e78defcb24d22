# SPDX-License-Identifier: Apache-2.0
"""One call of `tune`: rounds shared between tasks until the trials are used up."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kope_tvm.allocation import Allocation
from kope_tvm.ceiling import Ceiling
from kope_tvm.chat.dialogue import Dialogue, Spent
from kope_tvm.context import Trial
from kope_tvm.gates import load_gates
from kope_tvm.ledger import Ledger
from kope_tvm.measure.pool import Pool
from kope_tvm.memory.experience import Experience
from kope_tvm.memory.memory import Memory
from kope_tvm.outcome import Measurement, Verdict
from kope_tvm.panel import Panel
from kope_tvm.performance import Comparison, least_secs
from kope_tvm.pool_device import PoolDevice
from kope_tvm.progress import Progress, SilentProgress
from kope_tvm.report import TuneReport, task_report
from kope_tvm.round import Run, Tuning
from kope_tvm.run_record import Call, Cost, command_line, note_call, note_cost
from kope_tvm.seam import Gate, Proposer
from kope_tvm.seat import Seat
from kope_tvm.settlement import Settlement
from kope_tvm.stopwatch import Stopwatch
from kope_tvm.task import Task
from kope_tvm.trial_count import Count
from kope_tvm.workbench import Workbench, proposal_of, replayed

_ROUNDS_WITH_A_MODEL = 8
"""A run asks a model about so often: it is to see what came of its last words."""

_HOPELESS = 8.0
"""A candidate so many times slower than the incumbent is timed by one call."""


@dataclass(frozen=True)
class Means:
    """What all tasks of a session share."""

    run: Run
    proposers: Mapping[str, Callable[[Seat], Proposer]]
    """In the order in which they are asked."""
    ledger: Ledger
    memory: Memory
    pool: Pool
    home: Path
    """Where the user's own files are kept: what was found out about machines and endpoints."""
    dialogue: Dialogue | None = None
    rewind: int = 0
    """Trials at the end that undo single decisions of the best."""


@dataclass(frozen=True)
class Trials:
    """How many trials there are, and in what portions."""

    in_all: int
    per_task: int
    per_round: int


class Session:
    """One call of `tune`: the tasks, who proposes for them, and where outcomes go."""

    def __init__(self, tasks: Sequence[Task], means: Means) -> None:
        self._means = means
        self._ledger = means.ledger
        self.pool = means.pool
        self._benches = [Workbench(task, seed=means.run.seed) for task in tasks]
        self._waiting = Stopwatch()
        gates = load_gates()
        self._tunings = [self._tuning(bench, gates) for bench in self._benches]
        self._comparisons: dict[int, Comparison | None] = {}
        self._ceiling = Ceiling(means.pool, tasks[0].target, means.home)
        self._show_roof()
        self._progress: Progress = SilentProgress()
        self._measure_secs = 0.0
        self._first_trial_secs = 0.0

    def tune(self, trials: Trials, progress: Progress, started: float) -> TuneReport:
        """Run rounds until the trials are used up or nothing is left to try."""
        count = Count(resumed=[len(self._measured(tuning)) for tuning in self._tunings])
        self._progress = progress
        self._note_call(trials)
        progress.start(trials.in_all)
        allocation = Allocation(self._tunings)
        self._profile()
        try:
            while (left := trials.in_all - count.in_all) > 0:
                index = allocation.next()
                if index is None:
                    break
                wanted = self._round_size(allocation, index, trials, left)
                wanted = min(wanted, trials.per_task - count.of_task(index))
                if wanted <= 0:
                    allocation.close(index)
                    continue
                self._ensure_baseline(index)
                before, done = self._tunings[index].best_secs, count.new
                for trial in self._round(index, wanted, left):
                    self._first_trial_secs = self._first_trial_secs or time.perf_counter() - started
                    count.add(index, trial)
                    self._raise_roof(self._tunings[index], trial.secs)
                    best_secs = self._tunings[index].best_secs
                    name = self._tunings[index].task.name
                    progress.trial(name, trial.measurement, best_secs, count.in_all)
                    progress.spent(self._spent.tokens)
                allocation.credit(index, before, count.new - done)
            self._settle(count.measured)
            for tuning in self._tunings:
                tuning.show_last()
        finally:
            progress.close()
        return self._report(count, started)

    @property
    def _spent(self) -> Spent:
        return self._means.dialogue.spent if self._means.dialogue else Spent()

    def _profile(self) -> None:
        """Every untuned function's time, and the roof: by both, a model's trials are shared."""
        if len(self._tunings) < 2:
            return
        began = time.perf_counter()
        unknown = zip(self._tunings, self._benches, strict=True)
        self.pool.prepare([bench.mod for tuning, bench in unknown if not tuning.baseline_secs])
        self._spend(time.perf_counter() - began)
        for index in range(len(self._tunings)):
            self._ensure_baseline(index)
        self._ensure_roof()

    def _round_size(self, allocation: Allocation, index: int, trials: Trials, left: int) -> int:
        left -= self._means.rewind if left > self._means.rewind else 0
        if not self._measured(self._tunings[index]):
            wanted = allocation.first_round(index)
        elif self._means.dialogue is not None:
            wanted = allocation.next_round(trials.in_all // _ROUNDS_WITH_A_MODEL)
        else:
            wanted = allocation.next_round(left)
        return min(trials.per_round, left, wanted)

    def _settle(self, measured: Collection[int]) -> None:
        """Measure each task's fastest again in turns, then beside the untuned function.

        What an earlier call settled is left alone where this one measured nothing new.
        """
        for index, (tuning, bench) in enumerate(zip(self._tunings, self._benches, strict=True)):
            if index not in measured and self._is_settled(index):
                self._comparisons[index] = self._ledger.comparison(tuning.task)
                continue
            self._ensure_roof()
            turns = replace(self._device(index), is_last=False)
            device = replace(turns, prove_secs=math.inf, hopeless_secs=None)
            plain = replace(turns, prove_secs=0.0, floor_secs=lambda: 0.0)
            settlement = Settlement(tuning, bench, self._ledger, device, plain)
            self._comparisons[index] = settlement.settle()

    def _is_settled(self, index: int) -> bool:
        return self._ledger.is_settled(self._tunings[index].task, self._benches[index].untouched)

    def _round(self, index: int, wanted: int, left: int) -> Iterator[Trial]:
        return self._tunings[index].run_round(self._device(index), wanted, left)

    def _device(self, index: int) -> PoolDevice:
        tuning = self._tunings[index]
        hopeless = tuning.best_secs * _HOPELESS if tuning.best_secs < math.inf else None
        return PoolDevice(
            self.pool,
            self._benches[index].mod,
            self._spend,
            self._doubt_roof,
            lambda: self._floor_secs(index),
            hopeless,
        )

    def _floor_secs(self, index: int) -> float:
        tuning = self._tunings[index]
        return least_secs(tuning.roof_secs, tuning.task.features.op_class)

    def _ensure_baseline(self, index: int) -> None:
        """The untuned function's time and, where an LLM is to hear of it, the roof above it.

        Without one a single function's roof can wait for the finals: the first trial comes sooner.
        """
        tuning = self._tunings[index]
        if not tuning.baseline_secs:
            began = time.perf_counter()
            measured = self.pool.baseline(self._benches[index].mod)
            tuning.baseline_secs = measured.secs if measured.ok else 0.0
            self._spend(time.perf_counter() - began)
        if self._means.dialogue is not None:
            self._ensure_roof()
        self._raise_roof(tuning, tuning.baseline_secs)

    def _ensure_roof(self) -> None:
        began = time.perf_counter()
        is_fresh = self._ceiling.measure(self._progress.note)
        self._spend(time.perf_counter() - began)
        if is_fresh:
            for tuning in self._tunings:
                self._ceiling.raise_to(tuning.task.features, tuning.baseline_secs)
            self._show_roof()

    def _doubt_roof(self) -> bool:
        """Have the roof measured anew, once; whether it was."""
        began = time.perf_counter()
        is_fresh = self._ceiling.doubt(self._progress.note)
        self._spend(time.perf_counter() - began)
        self._show_roof()
        return is_fresh

    def _raise_roof(self, tuning: Tuning, secs: float) -> None:
        if self._ceiling.raise_to(tuning.task.features, secs):
            self._show_roof()

    def _show_roof(self) -> None:
        for each in self._tunings:
            each.roof_secs = self._ceiling.secs(each.task.features)

    def _tuning(self, bench: Workbench, gates: Sequence[Gate]) -> Tuning:
        means, ledger = self._means, self._ledger
        told = (self._waiting, means.rewind, means.run.simulated)
        seat = Seat(bench, means.memory, means.dialogue, *told)
        proposers = {name: seated(seat) for name, seated in means.proposers.items()}
        tuning = Tuning(
            bench.task,
            means.run,
            Panel(proposers),
            bench.apply,
            gates,
            ledger.recall,
            ledger.record,
        )
        ledger.open_workload(bench.mod)
        ledger.reconcile(bench.task, lambda experience: replayed(bench, experience))
        resumed(tuning, ledger.past(bench.task))
        return tuning

    @staticmethod
    def _measured(tuning: Tuning) -> list[Trial]:
        return [trial for trial in tuning.trials if trial.measurement is not None]

    def _note_call(self, trials: Trials) -> None:
        run, target = self._means.run, self._tunings[0].task.target
        told = (tuple(self._means.proposers), run.seed, run.toolchain, time.time())
        call = Call(run.run_id, command_line(), target.name, trials.in_all, *told)
        note_call(self._ledger.work_dir, call)

    def _note_cost(self, report: TuneReport) -> TuneReport:
        secs = (report.wall_secs, report.measure_secs, report.model_secs, report.own_secs)
        cost = Cost(report.trials, report.failed, *secs, report.spent)
        note_cost(self._ledger.work_dir, self._means.run.run_id, cost)
        return report

    def _report(self, count: Count, started: float) -> TuneReport:
        said = self._means.dialogue.notices if self._means.dialogue else ()
        report = TuneReport(
            tasks=tuple(
                task_report(tuning, self._comparisons.get(index))
                for index, tuning in enumerate(self._tunings)
            ),
            trials=count.new,
            failed=count.failed,
            wall_secs=time.perf_counter() - started,
            measure_secs=self._measure_secs,
            model_secs=self._waiting.secs,
            first_trial_secs=self._first_trial_secs,
            work_dir=str(self._ledger.work_dir),
            notices=(*self._ledger.notices, *said),
            spent=self._spent,
        )
        return self._note_cost(report)

    def _spend(self, secs: float) -> None:
        """Count time spent building and running."""
        self._measure_secs += secs


def resumed(tuning: Tuning, past: Sequence[Experience]) -> None:
    """Put what this work_dir knows where a run that never stopped would have it."""
    for experience in past:
        measured = None
        if experience.accepted:
            measured = Measurement(
                experience.run_secs, error=experience.reason, code=experience.code
            )
        told = (experience.accepted, experience.code, experience.reason, experience.suspicious)
        verdict = Verdict("work_dir", *told)
        tuning.trials.append(Trial(experience.state, proposal_of(experience), verdict, measured))
        tuning.tried.add(experience.state)
        tuning.baseline_secs = tuning.baseline_secs or experience.baseline_secs
        tuning.round_no = max(tuning.round_no, experience.round_no)
