# SPDX-License-Identifier: Apache-2.0
"""What a bench run found, as plain data that its JSON holds one to one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from kope_tvm.bench.curve import Curve
from kope_tvm.bench.statistics import geomean
from kope_tvm.bench.talk import Talk

OWN = "kope"
"""The contender that all ratios are of."""


@dataclass(frozen=True)
class Tuned:
    """What one contender's tuning came to."""

    wall_secs: float
    trials: int = 0
    failed: int = 0
    own_share: float = 0.0
    """Kope's own share of the wall time: neither building and running nor waiting for a model."""
    first_trial_secs: float = 0.0
    is_optimised: bool = True
    """Whether it is better than the untuned function; else that is what was timed."""
    space: str = ""
    """What won: `rule:<name>`, `sketch`, `plan` or `rewrite`."""
    proposer: str = ""
    refusals: Mapping[str, int] = field(default_factory=dict)
    """Proposals and candidates refused, by code."""
    curve: Curve = ()
    talk: Talk | None = None
    """What was said with a model; None where there was none."""


@dataclass(frozen=True)
class Operator:
    """One operator, every contender timed in turns."""

    spec: str
    run_secs: Mapping[str, tuple[float, ...]]
    """By contender, one value a turn; turns of one index were made one after another."""
    tuned: Mapping[str, Tuned]
    """By contender that tunes."""
    roof_secs: float = 0.0
    """Measured lower bound of the time on this machine; 0 where unknown."""
    absent: Mapping[str, str] = field(default_factory=dict)
    """By contender that could not take part, why."""

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

    def roof_share(self, contender: str) -> float:
        """Of the measured roof; 0 where that is unknown."""
        return self.roof_secs / self.secs(contender)

    @property
    def is_optimised(self) -> bool:
        """Whether kope came to anything better than the untuned function."""
        return OWN in self.tuned and self.tuned[OWN].is_optimised


@dataclass(frozen=True)
class Configuration:
    """What a run was told, and what else its figures depend on."""

    suite: str
    target: str
    trials: int
    """An operator's, of every contender that tunes."""
    seeds: tuple[int, ...]
    """Of the repeats: each tunes anew."""
    against: tuple[str, ...]
    ablations: tuple[str, ...]
    model: str
    """`none`, `live: <name>` or `replayed: <folder>`."""
    memory: str
    """What every tuning's memory started with; empty for nothing."""
    turns: int
    slot_secs: float
    """How long a turn runs the function for, at least."""


@dataclass(frozen=True)
class Bench:
    """A whole run."""

    configuration: Configuration
    command: str
    date: str
    versions: Mapping[str, str]
    machine: Mapping[str, Any]
    operators: tuple[Operator, ...]
    failed: Mapping[str, str] = field(default_factory=dict)
    """By operator that is not among them, what went wrong; called again, the run tries it again."""

    @property
    def contenders(self) -> tuple[str, ...]:
        """Who took part in any operator, kope's own first."""
        return tuple(dict.fromkeys(name for one in self.operators for name in one.run_secs))

    @property
    def peers(self) -> tuple[str, ...]:
        """All but kope."""
        return tuple(name for name in self.contenders if name != OWN)

    def ratios(self, peer: str) -> dict[str, float]:
        """By operator that the peer took part in, how many times as fast kope is."""
        found = [one for one in self.operators if peer in one.run_secs]
        return {one.spec: one.speed(OWN, peer) for one in found}

    def geomean(self, peer: str) -> float:
        """Of the ratios."""
        return geomean(self.ratios(peer).values())
