# SPDX-License-Identifier: Apache-2.0
"""The search strategy "kope": the round, mapped on MetaSchedule's SearchStrategy.

`generate_measure_candidates` is the first half of a round (recall to gates) and
`notify_runner_results` the second (measurement to edge). Whoever built and ran the candidates may
have checked nothing, so only what is legal by construction is proposed here.
"""

from __future__ import annotations

import logging
import re
import uuid
from typing import Any

from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms

from kope_tvm import registry
from kope_tvm.candidate import Candidate
from kope_tvm.feedback.roof import known_roof
from kope_tvm.gates import load_gates
from kope_tvm.machine import spec_of_target
from kope_tvm.memory.experience import Experience, Recalled
from kope_tvm.memory.location import default_path
from kope_tvm.outcome import Measurement
from kope_tvm.panel import Panel
from kope_tvm.performance import in_doubt, least_secs
from kope_tvm.round import Run, Tuning
from kope_tvm.seat import Seat
from kope_tvm.seeded import open_seeded
from kope_tvm.target import TargetSpec
from kope_tvm.task import Task
from kope_tvm.toolchain import toolchain
from kope_tvm.workbench import TVM_ERRORS, Workbench, first_line, make_task

_LEGAL_BY_CONSTRUCTION = ("experience", "rules", "sketch")

_METASCHEDULE = "tvm.s_tir.meta_schedule"
_LOGGERS = f"{_METASCHEDULE}.logging"

_UNCHECKED = "this runner may check nothing: only what is legal by construction is proposed"


@derived_object
class KopeStrategy(ms.search_strategy.PySearchStrategy):
    """MetaSchedule's search, conditioned on experience."""

    def __init__(
        self,
        memory: str | None = None,
        seed: int | None = None,
        machine: TargetSpec | None = None,
    ) -> None:
        """`memory` is a SQLAlchemy URL or a path; `seed` defaults to the TuneContext's.

        `machine` is what the TuneContext's target stands for, for a builder of kope's: a stock one
        takes no notice of what a candidate says of its target string.
        """
        super().__init__()
        self._memory_url = memory
        self._seed = seed
        self._machine = machine

    def _initialize_with_tune_context(self, context: Any) -> None:
        self._context = context

    def pre_tuning(
        self,
        max_trials: int,
        num_trials_per_iter: int,
        design_spaces: list[Any],
        database: Any = None,
        cost_model: Any = None,
    ) -> None:
        """Open the memory and seat the proposers; the design spaces are generated anew by them."""
        self._num_left = max_trials
        self._batch = num_trials_per_iter
        self._memory = open_seeded(self._memory_url)
        self._tuning = self._seated()
        self._floor_secs = self._least_secs()
        self._args_info = self._described()
        for text in (self._memory.notice, _UNCHECKED):
            self._say(text)

    def post_tuning(self) -> None:
        """Close the memory."""
        self._memory.close()

    def generate_measure_candidates(self) -> list[Any] | None:
        """The next batch; None when the trials are used up or nothing is left to try."""
        wanted = min(self._batch, self._num_left)
        if wanted <= 0:
            return None
        self._pending = self._tuning.candidates(wanted, self._num_left)
        self._num_left -= len(self._pending)
        if not self._pending:
            if all(trial.measurement is None for trial in self._tuning.trials):
                self._say("nothing to try: no rule and no design space fits this function")
            return None
        return [ms.MeasureCandidate(one.sch, self._args_info) for one in self._pending]

    def notify_runner_results(self, measure_candidates: list[Any], results: list[Any]) -> None:
        """Record every result, failures included."""
        for order, (candidate, result) in enumerate(zip(self._pending, results, strict=True)):
            measurement = in_doubt(_measurement(result), self._floor_secs)
            self._tuning.note(candidate, measurement, order=order)

    def clone(self) -> KopeStrategy:
        """A strategy of the same options for another task."""
        return KopeStrategy(self._memory_url, self._seed, self._machine)

    def _described(self) -> Any:
        """The function's arguments; one that MetaSchedule cannot describe gets no trials."""
        try:
            return ms.arg_info.ArgInfo.from_entry_func(self._context.mod, remove_preproc=True)
        except TVM_ERRORS as error:
            self._say(f"not tunable, kept as compiled: {first_line(error)}")
            self._num_left = 0
            return None

    def _least_secs(self) -> float:
        """What this machine's roof leaves to believe; 0 where no tuning of kope's measured it.

        Nothing is measured here: what runs the candidates may be another machine.
        """
        task = self._tuning.task
        roof = known_roof(task.target, default_path().parent)
        if roof is None or not roof.is_settled:
            return 0.0
        return least_secs(roof.secs(task.features), task.features.op_class)

    def _say(self, text: str) -> None:
        if text:
            _logger_of(str(self._context.task_name)).info("[kope] %s", text)

    def _seated(self) -> Tuning:
        context = self._context
        seed = self._seed or max(int(context.rand_state), 1)
        machine = self._machine or spec_of_target(context.target)
        task = make_task(str(context.task_name), context.mod, machine)
        bench = Workbench(task, seed=seed)
        proposers = {
            name: registry.load("proposers", name)(Seat(bench, self._memory))
            for name in _LEGAL_BY_CONSTRUCTION
        }
        gates = load_gates()
        run = Run(uuid.uuid4().hex[:12], seed, toolchain())
        memory = self._memory

        def record(experience: Experience, candidate: Candidate | None) -> None:
            memory.record(experience)

        def recall(task: Task) -> tuple[Recalled, ...]:
            return tuple(filter(_is_legal_by_construction, memory.recall(task)))

        panel = Panel(proposers)
        return Tuning(task, run, panel, bench.apply, gates, recall, record)


def _is_legal_by_construction(recalled: Recalled) -> bool:
    """Whether it may be tried where nothing is checked: neither a plan nor what came of one."""
    source = recalled.experience
    return source.lane == "decisions" and source.space != "plan"


def _measurement(result: Any) -> Measurement:
    if result.error_msg is not None or not result.run_secs:
        return Measurement(error=str(result.error_msg or "no time")[:200], code="E_RUN")
    return Measurement(tuple(float(secs) for secs in result.run_secs))


def _logger_of(task_name: str) -> logging.Logger:
    """The logger that `tune_tir` and `tune_relax` gave this task, or a TuneContext's own default.

    A TuneContext does not hand its logger out: it is found by the name MetaSchedule makes for it.
    Those of an earlier tuning in this process have had their files closed.
    """
    stem = re.compile(rf"{re.escape(_LOGGERS)}\.task_\d+_{re.escape(task_name[:100])}")
    names = [name for name in logging.root.manager.loggerDict if stem.fullmatch(name)]
    found = [logging.getLogger(name) for name in names]
    living = [logger for logger in found if any(map(_is_open, logger.handlers))]
    return living[-1] if living else logging.getLogger(f"{_METASCHEDULE}.tune_context")


def _is_open(handler: logging.Handler) -> bool:
    return isinstance(handler, logging.StreamHandler) and handler.stream is not None
