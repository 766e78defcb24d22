# SPDX-License-Identifier: Apache-2.0
"""What the suite `models` found, as plain data, and its table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from rich.table import Table

from kope_tvm.bench.statistics import geomean

KOPE = "kope"
UNTUNED = "untuned"
STOCK = "metaschedule"
ONNXRUNTIME = "onnxruntime"
PEERS = (UNTUNED, STOCK, ONNXRUNTIME)


@dataclass(frozen=True)
class Tuned:
    """One search over a whole model."""

    trials: int
    failed: int
    secs: float
    """Wall time of all calls that it took."""
    functions: str = ""
    """How many are tuned, and by what."""


@dataclass(frozen=True)
class BenchedModel:
    """One model, every contender timed in turns."""

    name: str
    kind: str
    dims: Mapping[str, int]
    check: str
    """kope's build against ONNX Runtime, its optimisations off, and against the untuned one."""
    is_right: bool
    tuned: Mapping[str, Tuned]
    run_secs: Mapping[str, tuple[float, ...]]
    """By contender, one value a turn; turns of one index were made one after another."""

    def secs(self, contender: str) -> float:
        """Median seconds of a call."""
        return median(self.run_secs[contender])

    def speed(self, over: str) -> float:
        """How many times as fast kope's is: the median of the turns' ratios."""
        pairs = zip(self.run_secs[over], self.run_secs[KOPE], strict=True)
        return median(other / mine for other, mine in pairs)

    def noise(self, contender: str) -> float:
        """Half the interquartile range of a contender's turns over their median."""
        turns = sorted(self.run_secs[contender])
        quarter = len(turns) // 4
        return (turns[-1 - quarter] - turns[quarter]) / 2 / median(turns)


@dataclass(frozen=True)
class ModelsBench:
    """A whole run."""

    command: str
    date: str
    versions: Mapping[str, str]
    machine: Mapping[str, Any]
    trials: int
    """Of each search, over all functions of a model."""
    models: tuple[BenchedModel, ...]

    @property
    def peers(self) -> tuple[str, ...]:
        return tuple(name for name in PEERS if all(name in one.run_secs for one in self.models))

    def as_json(self) -> dict[str, Any]:
        """Everything, with the ratios a reader wants."""
        plain = asdict(self)
        plain["suite"] = "models"
        plain["ratios"] = {
            one.name: {peer: one.speed(peer) for peer in self.peers} for one in self.models
        }
        plain["geomean"] = {
            peer: geomean(one.speed(peer) for one in self.models) for peer in self.peers
        }
        return plain


def table(bench: ModelsBench) -> Table:
    """Each model's time, and kope's speed over each other contender; geomeans last."""
    shown = Table(
        title=f"suite models, {bench.trials} trials a search: how many times as fast kope is as ..."
    )
    shown.add_column("model")
    for name in ("one call", *bench.peers, "noise", "outputs"):
        shown.add_column(name, justify="right")
    for one in bench.models:
        ratios = [f"{one.speed(peer):.2f}" for peer in bench.peers]
        word = "right" if one.is_right else "WRONG"
        time = f"{one.secs(KOPE) * 1e3:.3g} ms"
        shown.add_row(one.name, time, *ratios, f"±{one.noise(KOPE):.0%}", word)
    shown.add_section()
    means = [geomean(one.speed(peer) for one in bench.models) for peer in bench.peers]
    shown.add_row("geomean", "", *[f"{mean:.2f}" for mean in means], "", "")
    return shown
