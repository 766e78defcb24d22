# SPDX-License-Identifier: Apache-2.0
"""Which task gets the next round: the one with most time left to win."""

from __future__ import annotations

from collections.abc import Sequence

from kope_tvm.round import Tuning

_PATIENCE = 0.6
"""A task's expected gain shrinks by this factor with each round that brought less than 1%."""

_MIN_GAIN = 0.99


class Allocation:
    """Shares rounds by weight x time x how well the last rounds went."""

    def __init__(self, tunings: Sequence[Tuning]) -> None:
        self._tunings = tunings
        self._promise = [1.0] * len(tunings)
        self._closed = [False] * len(tunings)

    def next(self) -> int | None:
        """Index of the task whose round is next; None when no task has anything left to try."""
        open_ones = [i for i, closed in enumerate(self._closed) if not closed]
        return max(open_ones, key=self._expected, default=None)

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

    def _expected(self, index: int) -> float:
        tuning = self._tunings[index]
        secs = min(tuning.best_secs, tuning.baseline_secs or float("inf"))
        unseen = not any(trial.measurement for trial in tuning.trials)
        return tuning.task.weight * secs * self._promise[index] * (1e6 if unseen else 1.0)
