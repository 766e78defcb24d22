# SPDX-License-Identifier: Apache-2.0
"""What the GPU suite found: ratios over torch's compiler, with and without what fell back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from rich.table import Table

from kope_tvm.bench.cuda_contender import TORCH
from kope_tvm.bench.statistics import geomean
from kope_tvm.performance import GAMMA

KOPE, STOCK = "kope", "metaschedule"


@dataclass(frozen=True)
class Line:
    """One operator."""

    name: str
    num_steps: int
    turns: Mapping[str, Sequence[float]]
    in_a_row: Mapping[str, float]
    errors: Mapping[str, float]
    failed: Mapping[str, str]
    """Why a contender has no time."""
    notes: Mapping[str, str]
    tune_secs: Mapping[str, float]
    trials: Mapping[str, int]
    num_failed: Mapping[str, int]
    compile_secs: float
    clocks: str
    best_space: str = ""

    def secs(self, contender: str, first: int = 1) -> float:
        """Median of every other turn; 0 where it has no time."""
        return median(self.turns[contender][first::2]) if contender in self.turns else 0.0

    @property
    def is_chosen(self) -> bool:
        """Whether kope's own kernel is used: by the turns that are not reported."""
        ours = self.secs(KOPE, first=0)
        return 0 < ours * GAMMA <= self.secs(TORCH, first=0)

    @property
    def over_torch(self) -> float:
        """What a user gets: kope's kernel where it was chosen, torch's own where not."""
        return self.raw_over(TORCH) if self.is_chosen else 1.0

    def raw_over(self, contender: str) -> float:
        """Of kope's kernel, chosen or not; 0 where either has no time."""
        ours = self.secs(KOPE)
        return self.secs(contender) / ours if ours else 0.0


@dataclass(frozen=True)
class CudaBench:
    """A whole run."""

    command: str
    date: str
    versions: Mapping[str, str]
    machine: Mapping[str, Any]
    lines: tuple[Line, ...]

    @property
    def with_fallback(self) -> float:
        """Geomean over all, what fell back to torch's kernel counted as 1.0."""
        return geomean(line.over_torch for line in self.lines)

    @property
    def optimised_only(self) -> float:
        return geomean(line.over_torch for line in self.lines if line.is_chosen)

    @property
    def over_stock(self) -> float:
        """Geomean of kope's kernels over stock MetaSchedule's where both have a time; 0 of none."""
        ratios = [ratio for line in self.lines if (ratio := line.raw_over(STOCK))]
        return geomean(ratios) if ratios else 0.0

    @property
    def worst(self) -> float:
        return min((line.over_torch for line in self.lines), default=1.0)

    def as_json(self) -> dict[str, Any]:
        """Everything, with the ratios a reader wants."""
        told = {
            line.name: {
                "over_torch": line.over_torch,
                "raw_over_torch": line.raw_over(TORCH),
                "raw_over_stock": line.raw_over(STOCK),
                "chosen": line.is_chosen,
            }
            for line in self.lines
        }
        names = ("with_fallback", "optimised_only", "over_stock", "worst")
        return {**asdict(self), "ratios": told, **{name: getattr(self, name) for name in names}}


def table(bench: CudaBench) -> Table:
    """An operator a line, geomeans last."""
    shown = Table(title="suite cuda: microseconds of a call, cache cold")
    columns = ("operator", "kope", TORCH, STOCK, "over torch", "raw", "tuned in", "failed", "why")
    for name in columns:
        shown.add_column(name, justify="left" if name in ("operator", "why") else "right")
    for line in bench.lines:
        times = [_micros(line.secs(name)) for name in (KOPE, TORCH, STOCK)]
        ratios = [f"{line.over_torch:.2f}", f"{line.raw_over(TORCH):.2f}"]
        spent = [f"{line.tune_secs.get(KOPE, 0):.0f} s"]
        lost = [f"{line.num_failed.get(KOPE, 0)}/{line.trials.get(KOPE, 0)}"]
        shown.add_row(line.name, *times, *ratios, *spent, *lost, line.failed.get(KOPE, "")[:60])
    shown.add_section()
    rows: Sequence[tuple[str, Callable[[], float]]] = (
        ("geomean, fallback 1.0", lambda: bench.with_fallback),
        ("geomean, optimised only", lambda: bench.optimised_only),
        ("worst", lambda: bench.worst),
        ("over metaschedule", lambda: bench.over_stock),
    )
    for name, ratio in rows:
        shown.add_row(name, "", "", "", f"{ratio():.2f}" if ratio() else "-", "", "", "", "")
    return shown


def _micros(secs: float) -> str:
    return f"{secs * 1e6:.1f}" if secs else "-"
