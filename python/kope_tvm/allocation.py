# SPDX-License-Identifier: Apache-2.0
"""Which task gets the next round, and how long it is: the one with most time left to win."""

from __future__ import annotations

from collections.abc import Sequence

from kope_tvm.round import Tuning

_PATIENCE = 0.6
"""A task's expected gain shrinks by this factor with each round that brought less than 1%."""

_MIN_GAIN = 0.99

_SMALL_SHARE = 0.005
"""Of a model's time, below which a task is worth the best first guess and no more."""
_FIRST_ROUND = 4

_LEAST_HEADROOM = 0.05
"""A roof that was measured too low must not close a task."""


class Allocation:
    """Shares rounds by weight x time x room up to the roof x how well the last rounds went."""

    def __init__(self, tunings: Sequence[Tuning]) -> None:
        self._tunings = tunings
        self._promise = [1.0] * len(tunings)
        self._closed = [False] * len(tunings)

    def next(self) -> int | None:
        """Index of the task whose round is next; None when no task has anything left to try."""
        open_ones = [i for i, closed in enumerate(self._closed) if not closed]
        return max(open_ones, key=self._expected, default=None)

    def first_round(self, index: int) -> int:
        """Trials of a task's first round: small, that all tasks are seen before one is searched."""
        total = sum(map(self._untuned, range(len(self._tunings))))
        mine = self._untuned(index)
        return 1 if 0 < mine < total * _SMALL_SHARE else _FIRST_ROUND

    def next_round(self, left: int) -> int:
        """Trials of a later round, of those left for all tasks."""
        return max(_FIRST_ROUND, left // len(self._tunings))

    def credit(self, index: int, before_secs: float, num_trials: int) -> None:
        """Tell how a round went; a round without a candidate closes its task."""
        if num_trials == 0:
            self._closed[index] = True
        elif self._tunings[index].best_secs < before_secs * _MIN_GAIN:
            self._promise[index] = 1.0
        else:
            self._promise[index] *= _PATIENCE

    def close(self, index: int) -> None:
        """Give a task no more rounds."""
        self._closed[index] = True

    def _untuned(self, index: int) -> float:
        """Time in the model, before anything was tuned; 0 where unknown."""
        tuning = self._tunings[index]
        return tuning.task.weight * tuning.baseline_secs

    def _expected(self, index: int) -> float:
        tuning = self._tunings[index]
        secs = min(tuning.best_secs, tuning.baseline_secs or float("inf"))
        headroom = max(_LEAST_HEADROOM, 1 - tuning.roof_secs / secs)
        unseen = not any(trial.measurement for trial in tuning.trials)
        return tuning.task.weight * secs * headroom * self._promise[index] * (1e6 if unseen else 1)
