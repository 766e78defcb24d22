# SPDX-License-Identifier: Apache-2.0
"""What a tuning run did, as plain data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from kope_tvm.chat.dialogue import Spent
from kope_tvm.context import Trial
from kope_tvm.gains import Gains
from kope_tvm.performance import GAMMA, Comparison
from kope_tvm.proposal import Decisions, Proposal, Rewrite, lane_of
from kope_tvm.round import Tuning


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
    """`rule:<name>`, `sketch`, `plan` or `rewrite`, which may say how it was scheduled:
    `rewrite:sketch`.
    """
    best_proposer: str
    refused: int
    """Proposals that a gate or TVM refused before the device."""
    failed: int
    """Candidates that did not build, ran wrong, crashed or timed out."""
    refusals: tuple[tuple[str, int], ...] = ()
    """How many were refused or failed by which code, the most frequent first."""
    correct: bool = False
    """Whether the best was right on every case when it was measured beside the untuned function."""
    suspicious: bool = False
    """Whether it was refused for what only a cheat does."""
    faster: bool = False
    """Whether its gain is the needed one."""
    gain: float = 0.0
    """How many times as fast as the untuned function it was beside it; 0 where it was not."""
    needed: float = GAMMA
    """What it takes to replace the untuned function: `max(1.03, 1 + 2 x noise)`."""
    note: str = ""
    """What a person should know of the best, such as that a second opinion disagrees."""

    @property
    def accepted(self) -> bool:
        """Whether the best replaces the untuned function."""
        return self.correct and self.faster and not self.suspicious

    @property
    def speedup(self) -> float:
        """Over the untuned function; 1.0 where that stays."""
        return self.gain if self.accepted else 1.0


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
    spent: Spent = field(default_factory=Spent)
    """What a language model cost."""
    model_secs: float = 0.0
    """Spent waiting for a language model while nothing was measured."""

    @property
    def own_secs(self) -> float:
        """Kope's own share of the wall time."""
        return self.wall_secs - self.measure_secs - self.model_secs

    @property
    def num_optimised(self) -> int:
        """Functions that were replaced by something faster; the others fell back."""
        return self.gains.num_optimised

    @property
    def speedup_of_all(self) -> float:
        """The geometric mean over all functions, a fallback counted as 1.0."""
        return self.gains.of_all

    @property
    def speedup_of_optimised(self) -> float:
        """The geometric mean over the functions that did not fall back; 1.0 where all did."""
        return self.gains.of_optimised

    @property
    def gains(self) -> Gains:
        """Both means side by side."""
        return Gains(tuple(task.gain for task in self.tasks if task.accepted), len(self.tasks))


def task_report(tuning: Tuning, comparison: Comparison | None = None) -> TaskReport:
    """What became of one task, this run's trials and those it resumed.

    `comparison` is its fastest beside the untuned function.
    """
    found = comparison or Comparison(False, False, False, 0.0, GAMMA)
    measured = [trial for trial in tuning.trials if trial.measurement is not None]
    best = min(measured, key=lambda trial: trial.secs, default=None)
    right = best if best is not None and best.secs < float("inf") else None
    return TaskReport(
        name=tuning.task.name,
        key=tuning.task.key,
        weight=tuning.task.weight,
        trials=len(measured),
        baseline_secs=tuning.baseline_secs,
        best_secs=right.secs if right else float("inf"),
        best_space=spelt(right.proposal) if right else "",
        best_proposer=right.proposal.origin.proposer if right else "",
        refused=len(tuning.trials) - len(measured),
        failed=sum(1 for trial in measured if trial.secs == float("inf")),
        refusals=_refusals(tuning.trials),
        correct=found.correct,
        suspicious=found.suspicious,
        faster=found.faster,
        gain=found.gain,
        needed=found.needed,
        note=found.note,
    )


def _refusals(trials: Iterable[Trial]) -> tuple[tuple[str, int], ...]:
    count = Counter(code for trial in trials if (code := trial.code))
    return tuple(sorted(count.items(), key=lambda pair: (-pair[1], pair[0])))


def spelt(proposal: Proposal) -> str:
    """The design space of decisions, the lane of anything else."""
    if isinstance(proposal, Decisions):
        return proposal.space
    then = proposal.then if isinstance(proposal, Rewrite) else None
    scheduled = spelt(then) if then else ""
    return f"{lane_of(proposal)}:{scheduled}" if scheduled else lane_of(proposal)
