# SPDX-License-Identifier: Apache-2.0
"""Everything a store holds, as arrays by operator class that take in what is new."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kope_tvm.memory.changes import change_lessons
from kope_tvm.memory.credit import Slots, Sums
from kope_tvm.memory.experience import Experience
from kope_tvm.memory.lessons import Leaders, Lesson, ranked
from kope_tvm.memory.rows import Edge, Machine, Outline
from kope_tvm.memory.shelf import DAY_SECS, Shelf
from kope_tvm.memory.similarity import Embedding, machine_similarity, task_similarity
from kope_tvm.task import Features, Task

_SAME_KIND = 0.15
"""Likeness of machines below which a lesson does not carry over: another kind is 0.1 at most."""
HALF_LIFE_DAYS = 3 * 365.25
"""Age, counted from the newest experience, at which an experience is worth half."""
OLDEST = 0.25
"""What age leaves of any."""
OTHER_TOOLCHAIN = 0.5
"""Freshness of what another compiler made than the one that made the newest experience."""

Array = NDArray[np.float64]


class Source(Protocol):
    """What the index needs of a store."""

    def outlines(self, after_id: int = 0) -> Iterator[list[Outline]]: ...
    def features(self, task_keys: Iterable[str]) -> dict[str, Features]: ...
    def machines(self) -> dict[str, Machine]: ...
    def experiences_by_id(self, ids: Sequence[int]) -> dict[int, Experience]: ...
    def edges_by_id(self, ids: Sequence[int]) -> dict[int, Edge]: ...
    def proposal_chars(self, ids: Sequence[int]) -> dict[int, int]: ...


@dataclass(frozen=True)
class Worth:
    """What each row of a shelf is worth on any task, and why."""

    valid: Array
    """By slot; `Shelf.slot` says which is a row's."""
    fast: Array
    freshness: Array
    total: Array
    """Value, Q_valid, Q_fast and freshness together, 0 for failures and NaN for what is hidden."""


@dataclass
class ExperienceIndex:
    """Everything a store holds, ready to be ranked."""

    source: Source
    leaders: Leaders = field(default_factory=Leaders)
    """The fastest of each space, which lessons are distilled from."""
    shelves: dict[str, Shelf] = field(default_factory=dict)
    """By operator class."""
    _embedding: Embedding = field(default_factory=Embedding)
    _last_id: int = 0
    _class_of: dict[str, str] = field(default_factory=dict)
    """Operator class by task key."""
    _machines: dict[str, int] = field(default_factory=dict)
    _toolchains: dict[str, int] = field(default_factory=dict)
    _newest: tuple[float, str] = (0.0, "")
    """When the newest experience was made, and with which toolchain."""
    _slots: Slots = field(default_factory=Slots)
    _credit: dict[str, tuple[tuple[int, int], Sums]] = field(default_factory=dict)
    """By operator class of the outcome, with what it was made of."""
    _worth: dict[str, tuple[tuple[object, ...], Worth]] = field(default_factory=dict)
    _change_lessons: dict[tuple[str, str], tuple[int, tuple[Lesson, ...]]] = field(
        default_factory=dict
    )

    def refresh(self) -> None:
        """Take in what was recorded since, by this process or another."""
        for page in self.source.outlines(self._last_id):
            self._learn_tasks({row.task_key for row in page} - self._class_of.keys())
            by_class: dict[str, list[Outline]] = {}
            for row in page:
                by_class.setdefault(self._class_of[row.task_key], []).append(row)
            for op_class, rows in by_class.items():
                self.shelves[op_class].add(rows, [*map(self._numbers, rows)], self._slots)
                self.leaders.add(op_class, rows)
            self._newest = max(self._newest, max((row.at, row.toolchain) for row in page))
            self._last_id = page[-1].id
        if new := self._slots.take_new():
            for shelf in self.shelves.values():
                shelf.mark_cited(new)

    def _numbers(self, row: Outline) -> tuple[int, int]:
        machines, toolchains = self._machines, self._toolchains
        return (
            machines.setdefault(row.machine_key, len(machines)),
            toolchains.setdefault(row.toolchain, len(toolchains)),
        )

    def _learn_tasks(self, keys: set[str]) -> None:
        for key, features in sorted(self.source.features(keys).items()):
            shelf = self.shelves.setdefault(features.op_class, Shelf())
            shelf.tasks[key] = len(shelf.tasks)
            shelf.vectors.extend([self._embedding.vector(features)])
            self._class_of[key] = features.op_class

    def worth(self, op_class: str) -> Worth:
        """What the rows of a shelf are worth on any task."""
        shelf, day = self.shelves[op_class], int(self._newest[0] / DAY_SECS)
        versions = tuple(each.version for each in self.shelves.values())
        made_of = (versions, day, self._newest[1])
        if op_class not in self._worth or self._worth[op_class][0] != made_of:
            self._worth[op_class] = made_of, self._weighed(shelf, day)
        return self._worth[op_class][1]

    def _weighed(self, shelf: Shelf, day: int) -> Worth:
        sums = reduce(add, map(self._credit_of, self.shelves))
        valid, fast = sums.q_valid(), sums.q_fast()
        freshness = np.exp2((shelf.day.values - np.float32(day)) / np.float32(HALF_LIFE_DAYS))
        freshness = np.clip(freshness, OLDEST, 1.0)
        is_current = shelf.toolchain.values == self._toolchains[self._newest[1]]
        freshness *= np.where(is_current, np.float32(1.0), np.float32(OTHER_TOOLCHAIN))
        total = shelf.value() * (valid * fast)[shelf.slot.values] * freshness
        return Worth(valid, fast, freshness, total)

    def _credit_of(self, op_class: str) -> Sums:
        shelf = self.shelves[op_class]
        made_of = (shelf.version, len(self._slots))
        if op_class not in self._credit or self._credit[op_class][0] != made_of:
            self._credit[op_class] = made_of, shelf.credit(len(self._slots))
        return self._credit[op_class][1]

    def task_similarities(self, task: Task, shelf: Shelf) -> Array:
        """How alike a task is to each task of a shelf, operator class aside."""
        alike = task_similarity(self._embedding.vector(task.features), shelf.vectors.values)
        if task.key in shelf.tasks:
            alike[shelf.tasks[task.key]] = 1.0
        return alike

    def machine_similarities(self, task: Task) -> Array:
        """How alike the task's machine is to each one of the shelves."""
        theirs = self.machines_of(self._machines).values()
        ours = Machine.of(task.target)
        return np.array([machine_similarity(ours, machine) for machine in theirs])

    def machines_of(self, keys: Iterable[str]) -> Mapping[str, Machine]:
        """Some machines, as far as they are known."""
        known = self.source.machines()
        return {key: known.get(key) or Machine.from_key(key) for key in keys}

    def lessons(self, task: Task) -> tuple[str, ...]:
        """The lessons for a task's operator class, of the most similar machine that has any."""
        op_class, ours = task.features.op_class, Machine.of(task.target)
        if op_class not in self.shelves:
            return ()
        known = self.machines_of(self._machines)
        alike = {key: machine_similarity(ours, machine) for key, machine in known.items()}
        for key in sorted(known, key=lambda key: (alike[key], key), reverse=True):
            if alike[key] < _SAME_KIND:
                break
            if found := self._lessons_of(op_class, key):
                where = "" if key == ours.key else key
                return tuple(lesson.told(where) for lesson in found)
        return ()

    def all_lessons(self) -> tuple[Lesson, ...]:
        """The lessons that hold anywhere."""
        places = ((op_class, key) for op_class in self.shelves for key in self._machines)
        return ranked(lesson for place in places for lesson in self._lessons_of(*place))

    def _lessons_of(self, op_class: str, machine_key: str) -> tuple[Lesson, ...]:
        """The fastest spaces and the single changes of one place, the best founded first."""
        spaces = self.leaders.lessons(op_class, machine_key)
        return ranked((*spaces, *self._changes(op_class, machine_key)))

    def _changes(self, op_class: str, machine_key: str) -> tuple[Lesson, ...]:
        shelf, place = self.shelves[op_class], (op_class, machine_key)
        if self._change_lessons.get(place, (-1,))[0] != shelf.version:
            found = change_lessons(shelf, place, self._machines[machine_key])
            self._change_lessons[place] = shelf.version, found
        return self._change_lessons[place][1]
