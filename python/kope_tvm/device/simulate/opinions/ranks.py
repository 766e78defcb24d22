# SPDX-License-Identifier: Apache-2.0
"""Whether two models put schedules in the same order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

AGREES_FROM = 0.5
"""Below this mean rank correlation, or where one of the two is negative, opinions are apart."""


@dataclass(frozen=True)
class Agreement:
    """The simulated machine against the two others, on the schedules of one operator."""

    family: str
    num_schedules: int
    mca: float
    """Spearman's rank correlation with `llvm-mca`."""
    rvsim: float
    """The same with rvsim."""

    @property
    def word(self) -> str:
        """`opinions disagree` where nobody should trust the order that is simulated."""
        mean = (self.mca + self.rvsim) / 2
        agrees = mean >= AGREES_FROM and min(self.mca, self.rvsim) >= 0
        return "agree" if agrees else "opinions disagree"


def spearman(left: Sequence[float], right: Sequence[float]) -> float:
    """Rank correlation from -1 to 1; equal values share a rank; 0 where either never varies."""
    first, second = _ranks(left), _ranks(right)
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return 0.0
    return float(np.corrcoef(first, second)[0, 1])


def _ranks(values: Sequence[float]) -> np.ndarray:
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[places]
