# SPDX-License-Identifier: Apache-2.0
"""Everything a proposer may see this round."""

from __future__ import annotations

from dataclasses import dataclass, field

from kope_tvm.memory.experience import Recalled
from kope_tvm.outcome import Measurement, Verdict
from kope_tvm.proposal import Proposal
from kope_tvm.task import Task


@dataclass(frozen=True)
class Trial:
    """One proposal of this run and what became of it."""

    state: str
    proposal: Proposal
    verdict: Verdict
    measurement: Measurement | None = None

    @property
    def secs(self) -> float:
        return self.measurement.secs if self.measurement else float("inf")

    @property
    def code(self) -> str:
        """What it failed with, before the device or on it; empty where it is right."""
        return self.verdict.code if self.measurement is None else self.measurement.code

    @property
    def reason(self) -> str:
        """One number and a place; empty where it is right."""
        return self.verdict.reason if self.measurement is None else self.measurement.error

    @property
    def suspicious(self) -> bool:
        """Whether it was refused for what only a cheat does."""
        return (self.verdict if self.measurement is None else self.measurement).suspicious


@dataclass(frozen=True)
class Context:
    """The state of a task at the start of a round."""

    task: Task
    round_no: int
    num_wanted: int
    """Proposals asked for."""
    trials_left: int
    """Before this round."""
    seed: int
    recalled: tuple[Recalled, ...] = ()
    trials: tuple[Trial, ...] = ()
    """This run's and, after a resume, the work_dir's; oldest first."""
    baseline_secs: float = 0.0
    roof_secs: float = 0.0
    """Measured lower bound of the task's time on this machine; 0 where unknown."""
    is_last_round: bool = False
    """No proposal that comes later than this round is measured."""
    tried: frozenset[str] = field(default_factory=frozenset)
    """States that need no second measurement."""

    @property
    def best(self) -> Trial | None:
        """The incumbent: the fastest measured trial."""
        done = [trial for trial in self.trials if trial.measurement and trial.measurement.ok]
        return min(done, key=lambda trial: trial.secs, default=None)
