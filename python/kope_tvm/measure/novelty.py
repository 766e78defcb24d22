# SPDX-License-Identifier: Apache-2.0
"""Whether a candidate works as long on inputs it has seen as on new ones: one may keep results."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from kope_tvm.measure.policy import Array

_TURNS = 6
_LEAST_TURNS = 2
_MAX_SECS = 0.05
_ROUNDS = 3
"""Each must tell: on a busy machine one may."""
_RATIO = 2.5
_LEAST_SECS = 5e-6
"""What a call and the clock take, and more."""


@dataclass(frozen=True)
class Novelty:
    """Seconds of a call on inputs never seen before, and on the same once more."""

    unseen_secs: float
    """The least of all turns."""
    seen_secs: float
    """The median of all turns: where times are but noise, the least is far below it."""

    @property
    def is_told(self) -> bool:
        """Whether the candidate must have known the second inputs from the first."""
        return self.unseen_secs > _RATIO * self.seen_secs + _LEAST_SECS


def novelty(call: Callable[[], None], inputs: Sequence[tuple[Any, Array]]) -> Novelty:
    """Of a call on slots and what they hold: the same numbers, each turn in other places."""
    for number in range(_ROUNDS):
        found = _round(call, inputs, 1 + number * _TURNS)
        if not found.is_told:
            break
    return found


def _round(call: Callable[[], None], inputs: Sequence[tuple[Any, Array]], first: int) -> Novelty:
    unseen: list[float] = []
    seen: list[float] = []
    started = time.perf_counter()
    for turn in range(first, first + _TURNS):
        if len(seen) >= _LEAST_TURNS and time.perf_counter() - started > _MAX_SECS:
            break
        unseen.append(_secs(call, inputs, turn))
        seen.append(_secs(call, inputs, turn))
    return Novelty(min(unseen), median(seen))


def _secs(call: Callable[[], None], inputs: Sequence[tuple[Any, Array]], turn: int) -> float:
    # Done anew both times: the caches hold the same, and TVM's threads have waited as long.
    for slot, held in inputs:
        slot.fill(np.roll(held, turn))
    # Of this thread alone: who else has the machine is no matter.
    began = time.thread_time()
    call()
    return time.thread_time() - began
