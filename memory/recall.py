# SPDX-License-Identifier: Apache-2.0
"""Recall: the experiences most likely to help a task, ranked by similarity x value, and why.

The index keeps some 50 bytes a decision, in arrays by operator class; texts stay in the store and
are fetched for what was chosen only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from heapq import merge
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from kope_tvm.memory.experience import Experience, Recalled
from kope_tvm.memory.rows import Machine, Outline, measured_secs
from kope_tvm.memory.similarity import (
    OTHER_CLASS,
    WIDTH,
    Embedding,
    machine_similarity,
    task_similarity,
)
from kope_tvm.task import Features, Task

SLOW = 0.5
"""A value from which on down a measured experience is a warning rather than an example."""
_FIRST_LOOK = 64
_NOT_THE_SCHEDULE = frozenset({"E_DEVICE"})
"""Failures that teach nothing about the proposal."""


class Source(Protocol):
    """What the index needs of a store."""

    def outlines(self, after_id: int = 0) -> Iterator[list[Outline]]: ...
    def features(self, task_keys: Iterable[str]) -> dict[str, Features]: ...
    def machines(self) -> dict[str, Machine]: ...
    def experiences_by_id(self, ids: Sequence[int]) -> dict[int, Experience]: ...


class _Column:
    """An array that grows at its end."""

    def __init__(self, dtype: type[np.generic], *shape: int) -> None:
        self._array: NDArray[Any] = np.empty((16, *shape), dtype)
        self._size = 0

    @property
    def values(self) -> NDArray[Any]:
        return self._array[: self._size]

    def extend(self, values: Sequence[object]) -> None:
        end = self._size + len(values)
        if end > len(self._array):
            room = np.empty((max(end, 2 * self._size), *self._array.shape[1:]), self._array.dtype)
            room[: self._size] = self.values
            self._array = room
        self._array[self._size : end] = values
        self._size = end


class _Shelf:
    """All decisions of one operator class."""

    def __init__(self) -> None:
        self.tasks: dict[str, int] = {}
        self.vectors = _Column(np.float32, WIDTH)
        self.ids = _Column(np.int64)
        self.task = _Column(np.int32)
        self.machine = _Column(np.int32)
        self.group = _Column(np.int32)
        self.choice = _Column(np.uint64)
        self.secs = _Column(np.float64)
        """Infinity for failures, NaN for what must not be shown."""
        self._groups: dict[tuple[int, int, bool], int] = {}
        self._best = _Column(np.float64)

    def add(self, rows: Sequence[tuple[Outline, int]]) -> None:
        """Take in decisions and the numbers of their machines; their tasks are known."""
        tasks = [self.tasks[row.task_key] for row, _ in rows]
        groups = [
            self._group(task, machine, row.simulated)
            for task, (row, machine) in zip(tasks, rows, strict=True)
        ]
        secs = np.array([_shown_secs(row) for row, _ in rows])
        self.ids.extend([row.id for row, _ in rows])
        self.task.extend(tasks)
        self.machine.extend([machine for _, machine in rows])
        self.group.extend(groups)
        self.choice.extend([int(row.proposal_key[:16], 16) for row, _ in rows])
        self.secs.extend([*secs])
        np.fmin.at(self._best.values, np.array(groups), secs)

    def _group(self, task: int, machine: int, simulated: bool) -> int:
        key = (task, machine, simulated)
        if key not in self._groups:
            self._groups[key] = len(self._groups)
            self._best.extend([np.inf])
        return self._groups[key]

    def value(self) -> NDArray[np.float64]:
        """Best time of the same task and machine over its own: 1 best, 0 failed, NaN hidden."""
        secs = self.secs.values
        value = np.zeros(len(secs))
        np.divide(self._best.values[self.group.values], secs, out=value, where=secs != np.inf)
        return value


def _shown_secs(row: Outline) -> float:
    if row.suspicious or row.code in _NOT_THE_SCHEDULE:
        return float("nan")
    return row.secs if row.secs and not row.code else float("inf")


@dataclass(frozen=True)
class _Hit:
    id: int
    choice: int
    similarity: float
    value: float
    score: float


@dataclass
class ExperienceIndex:
    """Everything a store holds, ready to be ranked."""

    source: Source
    _shelves: dict[str, _Shelf] = field(default_factory=dict)
    _shelf_of: dict[str, _Shelf] = field(default_factory=dict)
    """By task key."""
    _machines: dict[str, int] = field(default_factory=dict)
    _embedding: Embedding = field(default_factory=Embedding)
    _last_id: int = 0

    def refresh(self) -> None:
        """Take in what was recorded since, by this process or another."""
        for page in self.source.outlines(self._last_id):
            self._learn_tasks({row.task_key for row in page} - self._shelf_of.keys())
            by_shelf: dict[int, list[tuple[Outline, int]]] = {}
            shelves = {id(shelf): shelf for shelf in self._shelves.values()}
            for row in page:
                machine = self._machines.setdefault(row.machine_key, len(self._machines))
                shelf_id = id(self._shelf_of[row.task_key])
                by_shelf.setdefault(shelf_id, []).append((row, machine))
            for shelf_id, rows in by_shelf.items():
                shelves[shelf_id].add(rows)
            self._last_id = page[-1].id

    def _learn_tasks(self, keys: set[str]) -> None:
        for key, features in sorted(self.source.features(keys).items()):
            shelf = self._shelves.setdefault(features.op_class, _Shelf())
            shelf.tasks[key] = len(shelf.tasks)
            shelf.vectors.extend([self._embedding.vector(features)])
            self._shelf_of[key] = shelf

    def choose(self, task: Task, limit: int) -> list[_Hit]:
        """The best examples in order, then one warning where there is one."""
        machines = self._machine_similarities(task)
        own = task.features.op_class
        good: dict[int, _Hit] = {}
        bad: dict[int, _Hit] = {}
        for is_own in (True, False):
            views = [
                self._view(shelf, task, machines, is_own)
                for name, shelf in self._shelves.items()
                if (name == own) is is_own
            ]
            _fill(good, (view.examples() for view in views), limit)
            leading = {hit.choice for hit in [*good.values()][: limit - 1] if hit.value > SLOW}
            _fill(bad, (view.warnings() for view in views), 1, without=leading)
            if len(good) >= limit:
                break
        return _joined([*good.values()], [*bad.values()], limit)

    def _view(
        self, shelf: _Shelf, task: Task, machines: NDArray[np.float64], is_own: bool
    ) -> _View:
        tasks = task_similarity(self._embedding.vector(task.features), shelf.vectors.values)
        if task.key in shelf.tasks:
            tasks[shelf.tasks[task.key]] = 1.0
        alike = tasks[shelf.task.values] * machines[shelf.machine.values]
        return _View(shelf, alike if is_own else alike * OTHER_CLASS, shelf.value())

    def _machine_similarities(self, task: Task) -> NDArray[np.float64]:
        ours = Machine(task.target.key, task.target.facts)
        known = self.source.machines()
        theirs = (known.get(key) or Machine.from_key(key) for key in self._machines)
        return np.array([machine_similarity(ours, machine) for machine in theirs])


@dataclass(frozen=True)
class _View:
    """A shelf as one task sees it."""

    shelf: _Shelf
    similarity: NDArray[np.float64]
    value: NDArray[np.float64]

    def examples(self) -> Iterator[_Hit]:
        """What was measured, most promising first."""
        return self._ranked(self.similarity * self.value)

    def warnings(self) -> Iterator[_Hit]:
        """What failed or was slow, most telling first."""
        badness = self.similarity * (1.0 - self.value)
        return self._ranked(np.where(self.value <= SLOW, badness, 0.0))

    def _ranked(self, score: NDArray[np.float64]) -> Iterator[_Hit]:
        """Rows of positive score, best first and of equals the newest; some come repeatedly."""
        rows = np.flatnonzero(score > 0)  # Leaves out NaN, which is hidden.
        size = _FIRST_LOOK
        while True:
            top = rows
            if size < len(rows):
                top = rows[np.argpartition(-score[rows], size)[:size]]
            for row in top[np.lexsort((-self.shelf.ids.values[top], -score[top]))]:
                yield self._hit(int(row), float(score[row]))
            if size >= len(rows):
                return
            size *= 8

    def _hit(self, row: int, score: float) -> _Hit:
        return _Hit(
            int(self.shelf.ids.values[row]),
            int(self.shelf.choice.values[row]),
            float(self.similarity[row]),
            float(self.value[row]),
            score,
        )


def _fill(
    chosen: dict[int, _Hit],
    sources: Iterable[Iterator[_Hit]],
    limit: int,
    without: Set[int] = frozenset(),
) -> None:
    """Add the best of all sources, one a proposal, until there are `limit`."""
    for hit in merge(*sources, key=lambda hit: -hit.score):
        if len(chosen) >= limit:
            return
        if hit.choice not in without:
            chosen.setdefault(hit.choice, hit)


def _joined(good: list[_Hit], bad: list[_Hit], limit: int) -> list[_Hit]:
    if limit < 2 or not bad:
        return good[:limit]
    warning = bad[0]
    others = [hit for hit in good if hit.choice != warning.choice]
    return [*others[: limit - 1], warning]


def recall(index: ExperienceIndex, task: Task, *, limit: int = 8) -> tuple[Recalled, ...]:
    """The experiences most likely to help, best first, the last of them a warning where known.

    Each proposal comes once. One that was refused for cheating never comes.
    """
    if limit < 1:
        return ()
    index.refresh()
    hits = index.choose(task, limit)
    found = index.source.experiences_by_id([hit.id for hit in hits])
    return tuple(_recalled(hit, found[hit.id], task) for hit in hits if hit.id in found)


def _recalled(hit: _Hit, experience: Experience, task: Task) -> Recalled:
    features = experience.features
    extents = features.spatial_extents + features.reduce_extents
    what = f"{features.op_class} {'x'.join(map(str, extents))}".strip()
    same = experience.machine_key == task.target.key
    where = "this machine" if same else experience.machine_key
    why = f"{what} on {where}, {_outcome(experience, hit.value)}, similarity {hit.similarity:.2f}"
    return Recalled(experience, hit.similarity, hit.value, why)


def _outcome(experience: Experience, value: float) -> str:
    secs = measured_secs(experience)
    if not secs:
        return f"failed: {experience.code} {experience.reason}".strip()
    slow = f"slow ({value:.2f} of the best known), " if value <= SLOW else ""
    if not experience.baseline_secs:
        return f"{slow}{secs * 1e6:.4g} us"
    return f"{slow}{experience.baseline_secs / secs:.3g}x its baseline"
