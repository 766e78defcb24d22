# SPDX-License-Identifier: Apache-2.0
"""One operator: tuned by every contender that tunes, then all of them timed in turns."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from kope_tvm.bench.ablation import Ablation, usual_seats
from kope_tvm.bench.constant_weights import with_constants
from kope_tvm.bench.contender import Contender, in_turns
from kope_tvm.bench.curve import curve_of
from kope_tvm.bench.inputs import operator_inputs
from kope_tvm.bench.modules import best_module, journal_of, settled_module
from kope_tvm.bench.result import OWN, Operator, Tuned
from kope_tvm.bench.sanity import faults
from kope_tvm.bench.stem import file_stem
from kope_tvm.bench.stock import tune_stock
from kope_tvm.bench.talk import talk_of
from kope_tvm.chat.exchanges import EXCHANGES, read_exchanges
from kope_tvm.errors import KopeError, UsageError
from kope_tvm.feedback.roof import known_roof
from kope_tvm.memory.location import default_path
from kope_tvm.memory.memory import Memory
from kope_tvm.model import extract_tasks, load_model
from kope_tvm.operators import parse_operator
from kope_tvm.report import TuneReport
from kope_tvm.target import TargetSpec
from kope_tvm.tuning import tune
from kope_tvm.workbench import Workbench, make_task

STOCK = {"metaschedule": 1, "metaschedule-10x": 10}
"""Times the trials of kope that stock MetaSchedule gets."""
ONNXRUNTIME = "onnxruntime"
CONSTANT = "onnxruntime, constant weights"
"""It knows the weights beforehand and packs them; kope's function is given them with each call."""
PEERS = (*STOCK, ONNXRUNTIME, "untuned")

EARLY_TRIALS = 8
WARM_TRIALS = 4
EARLY = f"{OWN}@{EARLY_TRIALS}"
WARM = f"{OWN}, warm@{WARM_TRIALS}"


@dataclass(frozen=True)
class Rules:
    """What holds for every operator of a run."""

    target: TargetSpec
    trials: int
    against: tuple[str, ...]
    turns: int
    proposer: str = "experience"
    exchanges: Path | None = None
    """Folder of stored exchanges, for proposer `replay`."""
    memory: Path | None = None
    ablations: Mapping[str, Ablation] = field(default_factory=dict)


class Contest:
    """One operator's part of a run."""

    def __init__(self, spec: str, rules: Rules, seed: int, folder: Path) -> None:
        """Raises UsageError for an operator that is no test of a program."""
        self._bound = parse_operator(spec)
        if wrong := faults(self._bound):
            raise UsageError(f"{spec} tells no right program from a wrong one: {'; '.join(wrong)}")
        self._spec, self._rules, self._seed, self._folder = spec, rules, seed, folder
        ((name, mod, weight),) = extract_tasks(load_model(spec), rules.target)
        self._bench = Workbench(make_task(name, mod, rules.target, weight))
        self._files: dict[str, Path] = {}
        self._tuned: dict[str, Tuned] = {}
        self._absent: dict[str, str] = {}

    def run(self) -> Operator:
        """Tune, then time."""
        self._tune_own()
        for name, ablation in self._rules.ablations.items():
            self._tune_ablation(name, ablation)
        for peer in self._rules.against:
            if peer in STOCK:
                self._tune_stock(peer, STOCK[peer] * self._rules.trials)
        self._files["untuned"] = best_module(self._bench, self._folder / "kope", 0)
        inputs = self._folder / "inputs.npz"
        arrays = operator_inputs(self._bound, seed=0)
        np.savez(inputs, **arrays)  # type: ignore[arg-type]
        target = self._rules.target
        if ONNXRUNTIME in self._rules.against:
            for peer, model in self._onnx_forms(arrays).items():
                self._try(peer, model, inputs)
        machine = (target.name, target.facts.num_cores)
        turns = in_turns(self._files, *machine, inputs, self._rules.turns)
        return Operator(self._spec, turns, self._tuned, self._roof_secs(), self._absent)

    def _tune_own(self) -> None:
        """With its memory new, then a few trials more with the memory of the first run."""
        cold, memory = self._folder / "kope", self._folder / "kope.sqlite"
        self._start_memory(memory)
        self._tune(OWN, cold, self._rules.trials, memory, Ablation(""), self._rules.proposer)
        self._files[EARLY] = best_module(self._bench, cold, EARLY_TRIALS)
        warm = self._folder / "warm"
        self._tune(WARM, warm, WARM_TRIALS, memory, Ablation(""), "experience")

    def _tune_ablation(self, name: str, ablation: Ablation) -> None:
        memory = self._folder / f"{name}.sqlite"
        self._start_memory(memory)
        work_dir = self._folder / name
        contender = f"{OWN}, {ablation.label}"
        trials, proposer = self._rules.trials, self._rules.proposer
        self._tune(contender, work_dir, trials, memory, ablation, proposer)

    def _tune(
        self,
        contender: str,
        work_dir: Path,
        trials: int,
        memory: Path,
        ablation: Ablation,
        proposer: str,
    ) -> None:
        record = self._record(work_dir.name, proposer)
        report = tune(
            self._spec,
            self._rules.target,
            work_dir,
            trials,
            proposer=proposer,
            memory=ablation.memory.open(memory),
            seed=self._seed + (contender == WARM),
            exchanges=record if proposer == "replay" else None,
            seats=ablation.seats(proposer) if ablation.label else usual_seats(proposer),
        )
        self._files[contender] = settled_module(self._bench, work_dir)
        self._tuned[contender] = _tuned(report, work_dir, record or work_dir / EXCHANGES)

    def _record(self, run: str, proposer: str) -> Path | None:
        """What a model is to have said; a record of an ablation's own goes before the usual one."""
        folder = self._rules.exchanges
        if proposer != "replay" or folder is None:
            return None
        stem = file_stem(self._spec)
        own = folder / f"{stem}.{run}.jsonl"
        return own if own.is_file() else folder / f"{stem}.jsonl"

    def _start_memory(self, memory: Path) -> None:
        if self._rules.memory is not None:
            with Memory.open(memory) as fresh, Memory.open(self._rules.memory) as known:
                fresh.merge(known)

    def _tune_stock(self, peer: str, trials: int) -> None:
        file = self._folder / f"{peer}.json"
        began, target = time.perf_counter(), self._rules.target.name
        try:
            tune_stock(self._spec, target, trials, self._seed, self._folder / peer, file)
        except subprocess.CalledProcessError as error:
            log = (self._folder / peer / "stock.log").read_text(errors="replace").strip()
            self._absent[peer] = f"exit code {error.returncode}: {log.splitlines()[-1:]}"
            return
        self._files[peer] = file
        self._tuned[peer] = Tuned(time.perf_counter() - began, trials)

    def _onnx_forms(self, arrays: Mapping[str, np.ndarray]) -> dict[str, bytes]:
        """Models by peer; two where the operator has weights."""
        try:
            model = self._bound.onnx()
        except (KopeError, ValueError, TypeError) as error:
            self._absent[ONNXRUNTIME] = f"no ONNX form: {error}"
            return {}
        weights = {name: arrays[name] for name in sorted(self._bound.operator.weights)}
        constant = {CONSTANT: with_constants(model, weights)} if weights else {}
        return {ONNXRUNTIME: model, **constant}

    def _try(self, peer: str, model: bytes, inputs: Path) -> None:
        """Not every operator of ONNX has a kernel for every dtype."""
        file, target = self._folder / f"{peer}.onnx", self._rules.target
        file.write_bytes(model)
        try:
            with Contender(peer, file, target.name, target.facts.num_cores, inputs) as alone:
                alone.wait()
        except KopeError as error:
            self._absent[peer] = str(error)
            return
        self._files[peer] = file

    def _roof_secs(self) -> float:
        roof = known_roof(self._rules.target, default_path().parent)
        return roof.secs(self._bench.task.features) if roof is not None else 0.0


def _tuned(report: TuneReport, work_dir: Path, record: Path) -> Tuned:
    (task,) = report.tasks
    exchanges = read_exchanges(record)[: report.spent.calls] if record.is_file() else ()
    return Tuned(
        wall_secs=report.wall_secs,
        trials=report.trials,
        failed=report.failed,
        own_share=report.own_secs / report.wall_secs,
        first_trial_secs=report.first_trial_secs,
        is_optimised=task.accepted,
        space=task.best_space,
        proposer=task.best_proposer,
        refusals=dict(task.refusals),
        curve=curve_of(journal_of(work_dir)),
        talk=talk_of(exchanges) if exchanges else None,
    )


def scratch(folder: Path) -> Path:
    """An empty folder: what a killed run left half done is made anew."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
