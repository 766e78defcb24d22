# SPDX-License-Identifier: Apache-2.0
"""What many ratios come to: means, shares above a bar, and how far chance may have moved them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

_RESAMPLES = 2000
_COVERAGE = 0.95
_SEED = 1


@dataclass(frozen=True)
class Interval:
    """A figure and the interval that nineteen of twenty resamplings of its operators lie in."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"


def geomean(values: Iterable[float]) -> float:
    """Geometric mean of positive values; 1.0 of none."""
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs)) if logs else 1.0


def percentile(values: Sequence[float], share: float) -> float:
    """The value that `share` of the values lie below, between neighbours linearly; nan of none."""
    return float(np.quantile(np.asarray(values), share)) if values else math.nan


def fast_share(ratios: Sequence[float], num_operators: int, bar: float) -> float:
    """KernelBench's fast_p: of all operators, those that are right and beyond `bar` times a peer.

    `ratios` are those of the operators that are right; 0 as the bar asks for nothing else.
    """
    return sum(1 for ratio in ratios if ratio > bar) / num_operators if num_operators else 0.0


def geomean_interval(values: Sequence[float], seed: int = _SEED) -> Interval:
    """The geometric mean, and how it varies where the values are drawn anew with replacement."""
    value = geomean(values)
    if len(values) < 2:
        return Interval(value, value, value)
    logs = np.log(np.asarray(values))
    means = np.random.default_rng(seed).choice(logs, (_RESAMPLES, len(logs))).mean(axis=1)
    tail = (1 - _COVERAGE) / 2
    low, high = np.exp(np.quantile(means, [tail, 1 - tail]))
    return Interval(value, float(low), float(high))
