# SPDX-License-Identifier: Apache-2.0
"""What keeps results is told from what a busy machine interrupts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count, cycle

import numpy as np

from kope_tvm.measure.novelty import Novelty, novelty

QUICK_SECS, SLOW_SECS = 2e-4, 2e-3
HELD = np.arange(64, dtype=np.float32)


class _Slot:
    """A tensor's place."""

    def __init__(self) -> None:
        self.held = b""

    def fill(self, contents: np.ndarray) -> None:
        self.held = contents.tobytes()


def _work(secs: float) -> None:
    until = time.thread_time() + secs
    while time.thread_time() < until:
        pass


def _in_turn(turns: Iterator[None], slot: _Slot) -> None:
    next(turns)


def _told(call: Callable[[_Slot], None]) -> Novelty:
    slot = _Slot()
    return novelty(lambda: call(slot), [(slot, HELD)])


def test_what_keeps_the_last_result_is_told() -> None:
    kept = [b""]

    def cached(slot: _Slot) -> None:
        _work(QUICK_SECS if kept[0] == slot.held else SLOW_SECS)
        kept[0] = slot.held

    found = _told(cached)
    assert found.is_told
    assert found.unseen_secs >= SLOW_SECS > found.seen_secs


def test_what_keeps_every_result_is_told() -> None:
    kept: set[bytes] = set()

    def cached(slot: _Slot) -> None:
        _work(QUICK_SECS if slot.held in kept else SLOW_SECS)
        kept.add(slot.held)

    assert _told(cached).is_told


def test_long_calls_are_made_twice_where_there_is_nothing_to_tell() -> None:
    made = count()

    def long(slot: _Slot) -> None:
        next(made)
        _work(0.03)

    assert not _told(long).is_told
    assert next(made) == 2


def test_one_long_call_that_was_interrupted_is_no_cache() -> None:
    number = count()
    assert not _told(lambda slot: _work(QUICK_SECS if next(number) else 0.03)).is_told


def test_every_second_call_being_interrupted_is_no_cache() -> None:
    for pattern in ((SLOW_SECS, QUICK_SECS), (QUICK_SECS, SLOW_SECS)):
        assert not _told(partial(_in_turn, map(_work, cycle(pattern)))).is_told


def test_calls_that_grow_quicker_are_no_cache() -> None:
    number = count()
    assert not _told(lambda slot: _work(SLOW_SECS * 0.8 ** next(number))).is_told


def test_equal_calls_are_no_cache() -> None:
    found = _told(lambda slot: _work(QUICK_SECS))
    assert not found.is_told
    assert found.unseen_secs >= QUICK_SECS
