# SPDX-License-Identifier: Apache-2.0
"""MetaSchedule's tuning context and evolutionary search, driven from outside."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from tvm import IRModule
from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

from kope_tvm.intrinsics import intrinsics_for
from kope_tvm.outcome import Measurement
from kope_tvm.wrong_intrinsics import without_wrong_spaces

_POPULATION = 64
"""Traces an evolution keeps; an eighth of TVM's default, which budgets below 1 000 never fill."""

_GENERATIONS = 3

_CORES = os.cpu_count() or 1
"""Nothing is measured meanwhile. What it finds depends on measured times, if not on the threads."""

_WARM_UP = 16
"""Measurements before the cost model ranks; with TVM's 100 a short run would rank at random."""


def sketch_context(mod: IRModule, target: Target, name: str, seed: int) -> Any:
    """A TuneContext with the stock design space and a small stock evolutionary search.

    What TVM has wrong intrinsics for is left out of the space.
    """
    target = without_wrong_spaces(target)
    logger = logging.getLogger("kope_tvm.metaschedule")
    logger.propagate = False
    with intrinsics_for(str(target.kind.name)):
        return ms.TuneContext(
            mod=mod,
            target=target,
            space_generator="post-order-apply",
            search_strategy=ms.search_strategy.EvolutionarySearch(
                population_size=_POPULATION,
                init_min_unmeasured=16,
                genetic_num_iters=_GENERATIONS,
            ),
            task_name=name,
            rand_state=seed,
            num_threads=_CORES,
            logger=logger,
        )


class Evolution:
    """Stock evolutionary search over the stock design spaces, ranked by the XGBoost cost model."""

    def __init__(self, context: Any, spaces: Sequence[Any], batch: int) -> None:
        self._context = context
        self._cost_model = ms.CostModel.create("xgb", num_tuning_cores=_CORES, tree_method="auto")
        self._cost_model.num_warmup_samples = _WARM_UP
        self._database = ms.database.MemoryDatabase()
        self._workload = self._database.commit_workload(context.mod)
        context.pre_tuning(1 << 20, batch, spaces, self._database, self._cost_model)

    def candidates(self) -> list[Any]:
        """The next batch of MeasureCandidates, unmeasured; empty when the space is exhausted."""
        found: list[Any] = list(self._context.generate_measure_candidates() or [])
        if found:
            self._context.notify_runner_results(found, [])
        return found

    def learn(self, schedules: Sequence[Any], measurements: Sequence[Measurement]) -> None:
        """Feed measured schedules to the cost model and to the population's parents."""
        results = [_result(measurement) for measurement in measurements]
        candidates = [ms.MeasureCandidate(sch, self.args_info) for sch in schedules]
        self._cost_model.update(self._context, candidates, results)
        for sch, measurement in zip(schedules, measurements, strict=True):
            if measurement.ok:
                self._database.commit_tuning_record(self._record(sch, measurement))

    def scores(self, schedules: Sequence[Any]) -> list[float]:
        """What the cost model takes them to be worth, more for faster; it may be far off."""
        candidates = [ms.MeasureCandidate(sch, self.args_info) for sch in schedules]
        return [float(score) for score in self._cost_model.predict(self._context, candidates)]

    @property
    def args_info(self) -> list[Any]:
        mod = self._context.mod
        return list(ms.arg_info.ArgInfo.from_entry_func(mod, remove_preproc=True))

    def _record(self, sch: Any, measurement: Measurement) -> Any:
        return ms.database.TuningRecord(
            sch.trace,
            self._workload,
            [float(secs) for secs in measurement.run_secs],
            self._context.target,
            self.args_info,
        )


@contextmanager
def _numpy_seeded(seed: int) -> Iterator[None]:
    """TVM's cold cost model answers from NumPy's global generator."""
    before = np.random.get_state()
    np.random.seed(seed % 2**32)
    try:
        yield
    finally:
        np.random.set_state(before)


def _result(measurement: Measurement) -> Any:
    if measurement.ok:
        return ms.runner.RunnerResult(list(measurement.run_secs), None)
    return ms.runner.RunnerResult(None, measurement.error or measurement.code)
