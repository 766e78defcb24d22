# SPDX-License-Identifier: Apache-2.0
"""All decisions of one operator class as arrays: some 60 bytes each, texts left in the store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kope_tvm.memory.rows import Outline
from kope_tvm.memory.similarity import WIDTH

NO_EDGE, UNTUNED = 0, 1
"""Parents that are no state: nothing was changed, or the function was as it came."""
_NOT_THE_SCHEDULE = frozenset({"E_DEVICE"})
"""Failures that teach nothing about the proposal."""


class Column:
    """An array that grows at its end."""

    def __init__(self, dtype: type[np.generic], *shape: int) -> None:
        self._array: NDArray[Any] = np.empty((16, *shape), dtype)
        self._size = 0

    @property
    def values(self) -> NDArray[Any]:
        return self._array[: self._size]

    def extend(self, values: Sequence[object]) -> None:
        """Append values, each a row where the column is a matrix."""
        end = self._size + len(values)
        if end > len(self._array):
            room = np.empty((max(end, 2 * self._size), *self._array.shape[1:]), self._array.dtype)
            room[: self._size] = self.values
            self._array = room
        self._array[self._size : end] = values
        self._size = end


class Shelf:
    """The tasks of one operator class, and what was tried on them."""

    def __init__(self) -> None:
        self.tasks: dict[str, int] = {}
        self.vectors = Column(np.float32, WIDTH)
        self.ids = Column(np.int64)
        self.task = Column(np.int32)
        self.machine = Column(np.int32)
        self.group = Column(np.int32)
        """Decisions whose times may be compared: those of one task and machine."""
        self.choice = Column(np.uint64)
        self.state = Column(np.int64)
        self.parent = Column(np.int64)
        """States by their hash in this process, or NO_EDGE or UNTUNED."""
        self.secs = Column(np.float64)
        """Infinity for failures, NaN for what must not be shown."""
        self.untuned_secs = Column(np.float64)
        """By group; 0 where unknown."""
        self._groups: dict[tuple[int, int, bool], int] = {}
        self._best = Column(np.float64)
        self._value: NDArray[np.float64] | None = None

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
        self.state.extend([hash(row.state) for row, _ in rows])
        self.parent.extend([_parent(row) for row, _ in rows])
        self.secs.extend([*secs])
        np.fmin.at(self._best.values, np.array(groups), secs)
        self._value = None
        untuned = np.array([row.baseline_secs for row, _ in rows])
        self.untuned_secs.values[np.array(groups)[untuned > 0]] = untuned[untuned > 0]

    def _group(self, task: int, machine: int, simulated: bool) -> int:
        key = (task, machine, simulated)
        if key not in self._groups:
            self._groups[key] = len(self._groups)
            self._best.extend([np.inf])
            self.untuned_secs.extend([0.0])
        return self._groups[key]

    def value(self) -> NDArray[np.float64]:
        """Best time of the same task and machine over its own: 1 best, 0 failed, NaN hidden."""
        if self._value is None:
            secs = self.secs.values
            self._value = np.zeros(len(secs))
            best = self._best.values[self.group.values]
            np.divide(best, secs, out=self._value, where=secs != np.inf)
        return self._value


def _shown_secs(row: Outline) -> float:
    if row.suspicious or row.code in _NOT_THE_SCHEDULE:
        return float("nan")
    return row.secs if row.secs and not row.code else float("inf")


def _parent(row: Outline) -> int:
    if not row.is_change or row.parent == row.state:
        return NO_EDGE
    return hash(row.parent) if row.parent else UNTUNED
