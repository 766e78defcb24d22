# SPDX-License-Identifier: Apache-2.0
"""The floor: what MetaSchedule's evolutionary search finds in its own design spaces."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

from tvm.s_tir import Schedule

from kope_tvm.context import Context, Trial
from kope_tvm.outcome import Measurement
from kope_tvm.proposal import Decisions, Origin, Proposal
from kope_tvm.seat import Seat
from kope_tvm.sketch_space import Evolution
from kope_tvm.workbench import TVM_ERRORS, trace_text

_BATCH = 16
"""Candidates of one evolution; it is fed and asked again when they are used up."""


class Sketch:
    """Stock search, fed with every measurement of the run whoever proposed it."""

    def __init__(self, seat: Seat) -> None:
        self._workbench = seat.bench
        self._ready: deque[str] = deque()
        self._said: set[str] = set()
        self._num_learned = 0
        self._num_sampled = 0
        self._is_dry = False
        """Evolution says the same again: the space is used up, and asking costs a second."""

    def propose(self, context: Context) -> Sequence[Proposal]:
        """The next settings of the design spaces, as traces."""
        while len(self._ready) < context.num_wanted and self._refill(context):
            continue
        count = min(context.num_wanted, len(self._ready))
        return [Decisions("sketch", self._ready.popleft(), Origin("sketch")) for _ in range(count)]

    @cached_property
    def _evolution(self) -> Evolution:
        return Evolution(self._workbench.tune_context, self._workbench.sketch_schedules, _BATCH)

    def _refill(self, context: Context) -> bool:
        if self._is_dry or not self._workbench.sketch_schedules:
            return False
        is_cold = all(trial.measurement is None for trial in context.trials)
        found = self._fresh(self._sampled()) if is_cold else []
        if not found:
            self._learn(context.trials)
            evolved = (trace_text(one.sch.trace) for one in self._evolution.candidates())
            found = self._fresh(evolved)
            self._is_dry = not found
        self._ready.extend(found)
        return bool(found)

    def _fresh(self, traces: Iterator[str]) -> list[str]:
        found = [trace for trace in dict.fromkeys(traces) if trace not in self._said]
        self._said.update(found)
        return found

    def _sampled(self) -> Iterator[str]:
        """Random settings by the seed: nothing can rank them before something was measured."""
        bench = self._workbench
        for _ in range(_BATCH):
            space = bench.sketch_schedules[self._num_sampled % len(bench.sketch_schedules)]
            self._num_sampled += 1
            sch = Schedule(
                bench.mod,
                seed=bench.seed + self._num_sampled,
                debug_mask="none",
                error_render_level="none",
            )
            try:
                with bench.tvm_target:
                    space.trace.apply_to_schedule(
                        sch, remove_postproc=True, decision_provider=_anew
                    )
            except TVM_ERRORS:  # Not every random setting can be applied.
                continue
            yield trace_text(sch.trace)

    def _learn(self, trials: Sequence[Trial]) -> None:
        """Rule schedules teach too: the cost model reads the loops, whoever wrote them."""
        schedules: list[Any] = []
        measurements: list[Measurement] = []
        for trial in trials[self._num_learned :]:
            if trial.measurement is None:
                continue
            candidate = self._workbench.apply(trial.proposal)
            if hasattr(candidate, "sch"):
                schedules.append(candidate.sch)
                measurements.append(trial.measurement)
        self._num_learned = len(trials)
        if schedules:
            self._evolution.learn(schedules, measurements)


def _anew(*_: object) -> None:
    """Have every sampling instruction choose again."""
