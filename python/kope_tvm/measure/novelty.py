# SPDX-License-Identifier: Apache-2.0
"""Whether a candidate works as long on inputs it has seen as on new ones: one may keep results."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from kope_tvm.measure.policy import Array

_BLOCKS = 3
_BLOCK = (True, True, False, False)
"""Two calls on new inputs and two on those of the call before, in any order."""
_MAX_SECS = 0.05
_LONG_SECS = 0.02
"""Of such calls two show whether there is anything to ask."""
_ROUNDS = 4
"""Each must tell: on a busy machine one may."""
_RATIO = 2.5
_LEAST_SECS = 5e-6
"""What a call and the clock take, and more."""


@dataclass(frozen=True)
class Novelty:
    """Seconds of a call on inputs never seen before, and on the same once more."""

    unseen_secs: float
    """The least of all calls."""
    seen_secs: float
    """The median of all calls: where times are but noise, the least is far below it."""

    @property
    def is_told(self) -> bool:
        """Whether the candidate must have known the second inputs from the first."""
        return self.unseen_secs > _RATIO * self.seen_secs + _LEAST_SECS


def novelty(call: Callable[[], None], inputs: Sequence[tuple[Any, Array]]) -> Novelty:
    """Of a call on slots and what they hold: the same numbers, each time in other places.

    Once a round has told, the others are whole ones, however long they take.
    """
    places = iter(range(1, 1 << 30))
    max_secs = _MAX_SECS
    for number in range(_ROUNDS):
        found = _round(call, inputs, places, random.Random(number), max_secs)
        if not found.is_told:
            break
        max_secs = math.inf
    return found


def _round(
    call: Callable[[], None],
    inputs: Sequence[tuple[Any, Array]],
    places: Iterator[int],
    order: random.Random,
    max_secs: float,
) -> Novelty:
    # In an order drawn anew: on a busy machine the scheduler may interrupt every second call.
    secs: dict[bool, list[float]] = {True: [], False: []}
    started = time.perf_counter()
    place = next(places)
    first = _secs(call, inputs, place)
    if first > _LONG_SECS and max_secs < math.inf:
        return Novelty(first, _secs(call, inputs, place))
    for _ in range(_BLOCKS):
        for is_new in order.sample(_BLOCK, len(_BLOCK)):
            place = next(places) if is_new else place
            secs[is_new].append(_secs(call, inputs, place))
        if time.perf_counter() - started > max_secs:
            break
    return Novelty(min(secs[True]), median(secs[False]))


def _secs(call: Callable[[], None], inputs: Sequence[tuple[Any, Array]], place: int) -> float:
    # Done anew each time: the caches hold the same, and TVM's threads have waited as long.
    for slot, held in inputs:
        slot.fill(np.roll(held, place))
    # Of this thread alone: who else has the machine is no matter.
    began = time.thread_time()
    call()
    return time.thread_time() - began
