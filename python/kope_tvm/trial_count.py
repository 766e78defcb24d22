# SPDX-License-Identifier: Apache-2.0
"""How many trials a session has made, by task."""

from __future__ import annotations

from collections.abc import Sequence

from kope_tvm.context import Trial


class Count:
    """The trials of this call, and of those it resumed."""

    def __init__(self, resumed: Sequence[int]) -> None:
        self._done = list(resumed)
        self._resumed = sum(resumed)
        self.failed = 0
        self.measured: set[int] = set()

    @property
    def in_all(self) -> int:
        return sum(self._done)

    @property
    def new(self) -> int:
        return self.in_all - self._resumed

    def of_task(self, index: int) -> int:
        """Trials of one task."""
        return self._done[index]

    def add(self, index: int, trial: Trial) -> None:
        """Count one trial."""
        self._done[index] += 1
        self.measured.add(index)
        self.failed += not (trial.measurement and trial.measurement.ok)
