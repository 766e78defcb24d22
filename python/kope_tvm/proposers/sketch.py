# SPDX-License-Identifier: Apache-2.0
"""Proposes what MetaSchedule's evolutionary search finds in its own spaces: the floor."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from kope_tvm.context import Context, Trial
from kope_tvm.outcome import Measurement
from kope_tvm.proposal import Decisions, Origin, Proposal
from kope_tvm.sketch_space import Evolution
from kope_tvm.workbench import Workbench, trace_text

_BATCH = 16
"""Candidates of one evolution; it is fed and asked again when they are used up."""


class Sketch:
    """Stock search, fed with every measurement of the run whoever proposed it."""

    def __init__(self, workbench: Workbench) -> None:
        self._workbench = workbench
        self._ready: deque[Any] = deque()
        self._num_learned = 0

    def propose(self, context: Context) -> Sequence[Proposal]:
        """The next unmeasured candidates of the evolution."""
        while len(self._ready) < context.num_wanted and self._refill(context):
            continue
        count = min(context.num_wanted, len(self._ready))
        return [self._proposal(self._ready.popleft()) for _ in range(count)]

    @cached_property
    def _evolution(self) -> Evolution:
        return Evolution(self._workbench.tune_context, self._workbench.sketch_schedules, _BATCH)

    def _refill(self, context: Context) -> bool:
        if not self._workbench.sketch_schedules:
            return False
        self._learn(context.trials)
        found = self._evolution.candidates()
        self._ready.extend(found)
        return bool(found)

    def _learn(self, trials: Sequence[Trial]) -> None:
        """Rule schedules teach too: the cost model reads the loops, whoever wrote them."""
        schedules: list[Any] = []
        measurements: list[Measurement] = []
        for trial in trials[self._num_learned :]:
            candidate = self._workbench.apply(trial.proposal)
            if trial.measurement is not None and hasattr(candidate, "sch"):
                schedules.append(candidate.sch)
                measurements.append(trial.measurement)
        self._num_learned = len(trials)
        if schedules:
            self._evolution.learn(schedules, measurements)

    def _proposal(self, candidate: Any) -> Decisions:
        return Decisions("sketch", trace_text(candidate.sch.trace), Origin("sketch"))
