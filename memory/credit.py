# SPDX-License-Identifier: Apache-2.0
"""Learned worth: what came of the outcomes that cite a program, a model's or a transfer's.

Every outcome names in `cites` the states that it was made from or that were in the prompt. Its
credit follows from the decisions as they stand, never from the order in which they came:

    Q_valid = (4 * 0.8 + right) / (4 + cited)
    Q_fast = exp((4 * log 0.8 + sum of log(best known time of its task / its time)) / (4 + right))

with each logarithm bounded at log 1/4. What was never cited is worth 0.8 of both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import log

import numpy as np
from numpy.typing import NDArray

PRIOR = 0.8
PRIOR_WEIGHT = 4.0
"""Outcomes that the prior counts for."""
_SLOWEST = log(0.25)
NEVER_CITED = 0
"""The slot of a state that no outcome cites."""


class Slots:
    """Numbers for the states that outcomes cite, whether they are known themselves or not."""

    def __init__(self) -> None:
        self._slots: dict[int, int] = {}
        self._new: dict[int, int] = {}

    def __len__(self) -> int:
        return 1 + len(self._slots)

    def cited(self, state: str) -> int:
        """The slot of a cited state, a new one at the first time."""
        key = hash(state)
        slot = self._slots.get(key)
        if slot is None:
            slot = self._slots[key] = self._new[key] = len(self)
        return slot

    def of(self, states: Iterable[int]) -> list[int]:
        """The slots of states by their hashes."""
        return [self._slots.get(state, NEVER_CITED) for state in states]

    def take_new(self) -> Mapping[int, int]:
        """Slots by hash that came since the last time."""
        new, self._new = self._new, {}
        return new


@dataclass(frozen=True)
class Sums:
    """What came of the outcomes that cite each slot."""

    cited: NDArray[np.float64]
    right: NDArray[np.float64]
    logs: NDArray[np.float64]

    @classmethod
    def of(cls, slots: NDArray[np.int32], value: NDArray[np.float64], count: int) -> Sums:
        """From citations: the slot, and the outcome's best known time over its own, or 0."""
        is_right = value > 0
        bounded = np.maximum(np.log(value, out=np.zeros(len(value)), where=is_right), _SLOWEST)
        weights = (None, is_right.astype(np.float64), bounded)
        return cls(*(np.bincount(slots, each, count).astype(np.float64) for each in weights))

    def __add__(self, other: Sums) -> Sums:
        return Sums(self.cited + other.cited, self.right + other.right, self.logs + other.logs)

    def q_valid(self) -> NDArray[np.float64]:
        """Smoothed share of right outcomes, by slot."""
        return (PRIOR_WEIGHT * PRIOR + self.right) / (PRIOR_WEIGHT + self.cited)

    def q_fast(self) -> NDArray[np.float64]:
        """Smoothed geometric mean of the best known time over the outcome's, by slot."""
        logs = PRIOR_WEIGHT * log(PRIOR) + self.logs
        return np.exp(logs / (PRIOR_WEIGHT + self.right))
