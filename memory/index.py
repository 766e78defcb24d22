# SPDX-License-Identifier: Apache-2.0
"""Everything a store holds, as arrays by operator class that take in what is new."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kope_tvm.memory.experience import Experience
from kope_tvm.memory.lessons import Leaders
from kope_tvm.memory.rows import Edge, Machine, Outline
from kope_tvm.memory.shelf import Shelf
from kope_tvm.memory.similarity import Embedding, machine_similarity, task_similarity
from kope_tvm.task import Features, Task

_SAME_KIND = 0.15
"""Likeness of machines below which a lesson does not carry over: another kind is 0.1 at most."""


class Source(Protocol):
    """What the index needs of a store."""

    def outlines(self, after_id: int = 0) -> Iterator[list[Outline]]: ...
    def features(self, task_keys: Iterable[str]) -> dict[str, Features]: ...
    def machines(self) -> dict[str, Machine]: ...
    def experiences_by_id(self, ids: Sequence[int]) -> dict[int, Experience]: ...
    def edges_by_id(self, ids: Sequence[int]) -> dict[int, Edge]: ...


@dataclass
class ExperienceIndex:
    """Everything a store holds, ready to be ranked."""

    source: Source
    leaders: Leaders = field(default_factory=Leaders)
    """The fastest of each space, which lessons are distilled from."""
    shelves: dict[str, Shelf] = field(default_factory=dict)
    """By operator class."""
    _last_id: int = 0
    _class_of: dict[str, str] = field(default_factory=dict)
    """Operator class by task key."""
    _machines: dict[str, int] = field(default_factory=dict)
    _embedding: Embedding = field(default_factory=Embedding)

    def refresh(self) -> None:
        """Take in what was recorded since, by this process or another."""
        for page in self.source.outlines(self._last_id):
            self._learn_tasks({row.task_key for row in page} - self._class_of.keys())
            by_class: dict[str, list[tuple[Outline, int]]] = {}
            for row in page:
                machine = self._machines.setdefault(row.machine_key, len(self._machines))
                by_class.setdefault(self._class_of[row.task_key], []).append((row, machine))
            for op_class, rows in by_class.items():
                self.shelves[op_class].add(rows)
                self.leaders.add(op_class, (row for row, _ in rows))
            self._last_id = page[-1].id

    def _learn_tasks(self, keys: set[str]) -> None:
        for key, features in sorted(self.source.features(keys).items()):
            shelf = self.shelves.setdefault(features.op_class, Shelf())
            shelf.tasks[key] = len(shelf.tasks)
            shelf.vectors.extend([self._embedding.vector(features)])
            self._class_of[key] = features.op_class

    def task_similarities(self, task: Task, shelf: Shelf) -> NDArray[np.float64]:
        """How alike a task is to each task of a shelf, operator class aside."""
        alike = task_similarity(self._embedding.vector(task.features), shelf.vectors.values)
        if task.key in shelf.tasks:
            alike[shelf.tasks[task.key]] = 1.0
        return alike

    def machine_similarities(self, task: Task) -> NDArray[np.float64]:
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
        known = self.machines_of(self.leaders.machines(op_class))
        alike = {key: machine_similarity(ours, machine) for key, machine in known.items()}
        nearest = max(alike, key=lambda key: (alike[key], key), default="")
        if not nearest or alike[nearest] < _SAME_KIND:
            return ()
        where = "" if nearest == ours.key else nearest
        return tuple(lesson.told(where) for lesson in self.leaders.lessons(op_class, nearest))
