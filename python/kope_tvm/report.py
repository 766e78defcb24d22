# SPDX-License-Identifier: Apache-2.0
"""What a tuning run did, as plain data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TaskReport:
    """One function's part of a run; times are infinity where nothing right was measured."""

    name: str
    key: str
    weight: float
    trials: int
    """Candidates that went to the device, in this run and those it resumed."""
    baseline_secs: float
    """The untuned function's."""
    best_secs: float
    best_space: str
    best_proposer: str
    refused: int
    """Proposals that a gate or TVM refused before the device."""
    failed: int
    """Candidates that did not build, ran wrong, crashed or timed out."""

    @property
    def speedup(self) -> float:
        """Untuned over best; 1.0 where the compiler's baseline stays."""
        return max(1.0, self.baseline_secs / self.best_secs) if self.best_secs else 1.0


@dataclass(frozen=True)
class TuneReport:
    """A whole run."""

    tasks: tuple[TaskReport, ...]
    trials: int
    """Measured by this call."""
    failed: int
    wall_secs: float
    measure_secs: float
    """Spent building and running candidates."""
    first_trial_secs: float
    """From the call to the first measured candidate; 0 where there was none."""
    work_dir: str
    notices: tuple[str, ...] = ()

    @property
    def own_secs(self) -> float:
        """Kope's own share of the wall time."""
        return self.wall_secs - self.measure_secs
