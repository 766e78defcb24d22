# SPDX-License-Identifier: Apache-2.0
"""What a bench run found, as plain data, and its table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from rich.table import Table


@dataclass(frozen=True)
class Operator:
    """One operator, every contender timed in turns."""

    spec: str
    run_secs: Mapping[str, tuple[float, ...]]
    """By contender, one value a turn; turns of one index were made one after another."""
    tune_secs: Mapping[str, float]
    """Wall seconds of tuning, by contender that tunes."""
    trials: Mapping[str, int]
    failed: Mapping[str, int]
    own_share: float
    """kope's own share of its tuning wall time."""
    first_trial_secs: float

    def secs(self, contender: str) -> float:
        """Median seconds of a call."""
        return median(self.run_secs[contender])

    def speed(self, contender: str, over: str) -> float:
        """How many times as fast `contender` is as `over`: the median of the turns' ratios."""
        pairs = zip(self.run_secs[over], self.run_secs[contender], strict=True)
        return median(other / mine for other, mine in pairs)

    def noise(self, contender: str) -> float:
        """Half the interquartile range of a contender's turns over their median."""
        turns = sorted(self.run_secs[contender])
        quarter = len(turns) // 4
        return (turns[-1 - quarter] - turns[quarter]) / 2 / median(turns)


@dataclass(frozen=True)
class Bench:
    """A whole run."""

    suite: str
    command: str
    date: str
    versions: Mapping[str, str]
    machine: Mapping[str, Any]
    operators: tuple[Operator, ...]

    @property
    def contenders(self) -> tuple[str, ...]:
        """Who took part, kope's own first."""
        return tuple(self.operators[0].run_secs) if self.operators else ()

    def geomean(self, contender: str, over: str) -> float:
        """Geometric mean over all operators."""
        return geomean(one.speed(contender, over) for one in self.operators)

    def as_json(self) -> dict[str, Any]:
        """Everything, with the ratios a reader wants."""
        plain = asdict(self)
        plain["ratios"] = {
            one.spec: {peer: one.speed("kope", peer) for peer in self.contenders if peer != "kope"}
            for one in self.operators
        }
        peers = [peer for peer in self.contenders if peer != "kope"]
        plain["geomean"] = {peer: self.geomean("kope", peer) for peer in peers}
        return plain


def geomean(values: Iterable[float]) -> float:
    """Geometric mean of positive values; 1.0 of none."""
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs)) if logs else 1.0


def table(bench: Bench) -> Table:
    """Kope's speed over each other contender, operator by operator, geomeans last."""
    peers = [one for one in bench.contenders if one != "kope"]
    shown = Table(title=f"suite {bench.suite}: how many times as fast kope is as …")
    shown.add_column("operator")
    for peer in peers:
        shown.add_column(peer, justify="right")
    shown.add_column("noise", justify="right")
    for one in bench.operators:
        ratios = [f"{one.speed('kope', peer):.2f}" for peer in peers]
        shown.add_row(one.spec, *ratios, f"±{one.noise('kope'):.0%}")
    shown.add_section()
    shown.add_row("geomean", *[f"{bench.geomean('kope', peer):.2f}" for peer in peers], "")
    return shown
