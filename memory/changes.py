# SPDX-License-Identifier: Apache-2.0
"""Lessons on single changes: what turning one thing did, task by task.

A task counts once for a change, by the geometric mean of what it did to the task's programs, a
failure being 1/2: for it from 1.05x on, against it from 1/1.05 down. Two tasks make a lesson.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import exp, log
from statistics import median

import numpy as np
from numpy.typing import NDArray

from kope_tvm.memory.lessons import CLEAR, Lesson, ranked
from kope_tvm.memory.shelf import UNTUNED, Shelf

_FAILURE = -log(2.0)
_FEWEST = 2
"""Tasks that bear a lesson out."""
_MOST = 8
"""Lessons of one place: more than a prompt has room for."""


@dataclass(frozen=True)
class _Effects:
    """What each change did to each task, one row a pair, sorted by change."""

    change: NDArray[np.int64]
    log_ratio: NDArray[np.float64]
    key: NDArray[np.bytes_]
    """Of the first decision by key, as evidence."""

    def side(self, sign: int) -> NDArray[np.bool_]:
        """Where it clearly helped, or for -1 clearly hurt."""
        return sign * self.log_ratio >= log(CLEAR)


def change_lessons(shelf: Shelf, place: tuple[str, str], machine: int) -> tuple[Lesson, ...]:
    """The lessons on changes of one operator class on one machine, the best founded first."""
    effects = _effects(shelf, machine)
    if not len(effects.change):
        return ()
    count = int(effects.change[-1]) + 1
    names = list(shelf.changes)
    found = [
        _lesson(place, names[change], effects, change, sign)
        for sign in (1, -1)
        for change in _founded(effects, sign, count)
    ]
    return ranked(found)[:_MOST]


def _founded(effects: _Effects, sign: int, count: int) -> Iterator[int]:
    """The changes with the most evidence for a claim that holds."""
    for_it = np.bincount(effects.change[effects.side(sign)], minlength=count)
    against = np.bincount(effects.change[effects.side(-sign)], minlength=count)
    strength = for_it - 2 * against
    held = np.flatnonzero((for_it >= _FEWEST) & (strength >= 0))
    if len(held) > _MOST:  # All that equal the last one stay, for `ranked` to choose from.
        held = held[strength[held] >= np.sort(strength[held])[-_MOST]]
    yield from (int(change) for change in held)


def _effects(shelf: Shelf, machine: int) -> _Effects:
    is_simulated = shelf.simulated.values[shelf.group.values]
    rows = np.flatnonzero((shelf.machine.values == machine) & ~is_simulated)
    before, after = shelf.secs_before(rows), shelf.secs.values[rows]
    known = ~np.isnan(before) & ~np.isnan(after) & (shelf.parent.values[rows] != UNTUNED)
    rows, before, after = rows[known], before[known], after[known]
    with np.errstate(divide="ignore"):
        logs = np.where(np.isinf(after), _FAILURE, np.log(before / after))
    num_tasks = len(shelf.tasks)
    pairs = shelf.change.values[rows].astype(np.int64) * num_tasks + shelf.task.values[rows]
    order = np.lexsort((shelf.key.values[rows], pairs))
    found, first, numbers = np.unique(pairs[order], return_index=True, return_inverse=True)
    mean = np.bincount(numbers, logs[order]) / np.maximum(np.bincount(numbers), 1)
    return _Effects(found // max(num_tasks, 1), mean, shelf.key.values[rows][order][first])


def _lesson(
    place: tuple[str, str], name: tuple[str, str], effects: _Effects, change: int, sign: int
) -> Lesson:
    (space, words), (op_class, machine_key) = name, place
    mine = effects.change == change
    supports, contradicts = (
        tuple(key.decode() for key in effects.key[mine & side])
        for side in (effects.side(sign), effects.side(-sign))
    )
    ratio = exp(median(effects.log_ratio[mine]))
    verb = "helped" if sign > 0 else "hurt"
    text = (
        f"{op_class}: {words} in {space} {verb} in {len(supports)} of {int(mine.sum())} tasks, "
        f"median {ratio:.2f}x"
    )
    about = f"{space}: {words} {verb}"
    return Lesson(
        op_class, machine_key, about, text, tuple(sorted(supports)), tuple(sorted(contradicts))
    )
