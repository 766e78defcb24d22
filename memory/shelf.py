# SPDX-License-Identifier: Apache-2.0
"""The decisions on one operator class as columns of numbers, texts left in the store."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kope_tvm.memory.credit import NEVER_CITED, Slots, Sums
from kope_tvm.memory.rows import Outline
from kope_tvm.memory.similarity import WIDTH

NO_EDGE, UNTUNED = 0, 1
"""Parents that are no state: nothing was changed, or the function was as it came."""
_NOT_THE_SCHEDULE = frozenset({"E_DEVICE"})
"""Failures that teach nothing about the proposal."""
_SCATTER = 0x9E3779B97F4A7C15 - (1 << 64)
"""2^64 over the golden ratio as a signed number: keeps the states of different groups apart."""
DAY_SECS = 86400.0


class Column:
    """An array that grows at its end."""

    def __init__(self, dtype: type[np.generic] | str, *shape: int) -> None:
        self._array: NDArray[Any] = np.empty((16, *shape), dtype)
        self._size = 0

    @property
    def values(self) -> NDArray[Any]:
        return self._array[: self._size]

    def extend(self, values: Sequence[object] | NDArray[Any]) -> None:
        """Append values, each a row where the column is a matrix."""
        end = self._size + len(values)
        if end > len(self._array):
            size = max(end, self._size + self._size // 2)
            room = np.empty((size, *self._array.shape[1:]), self._array.dtype)
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
        self.key = Column("S32")
        self.task = Column(np.int32)
        self.machine = Column(np.int32)
        self.toolchain = Column(np.int32)
        self.day = Column(np.float32)
        """When it was made, in days since the epoch."""
        self.group = Column(np.int32)
        """Decisions whose times may be compared: those of one task and machine."""
        self.kind = Column(np.int32)
        """Decisions that say much the same: those of one group in one space."""
        self.choice = Column(np.uint64)
        self.state = Column(np.int64)
        self.parent = Column(np.int64)
        """States by their hash in this process, or NO_EDGE or UNTUNED."""
        self.change = Column(np.int32)
        """Numbers of `changes`."""
        self.changes: dict[tuple[str, str], int] = {}
        """By space, or lane where that has no spaces, and words."""
        self.slot = Column(np.int32)
        """Of the state's credit."""
        self.secs = Column(np.float64)
        """Infinity for failures, NaN for what must not be shown."""
        self.untuned_secs = Column(np.float64)
        self.simulated = Column(np.bool_)
        """By group; seconds are 0 where unknown."""
        self.version = 0
        """Counts what was added."""
        self._citing = Column(np.int32)
        self._cited = Column(np.int32)
        """Citations: a row, and the slot of a state that it cites."""
        self._groups: dict[tuple[int, int, bool], int] = {}
        self._kinds: dict[tuple[int, str], int] = {}
        self._best = Column(np.float64)
        self._value: NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return len(self.ids.values)

    def add(
        self, rows: Sequence[Outline], numbers: Sequence[tuple[int, int]], slots: Slots
    ) -> None:
        """Take in decisions and the numbers of their machines and toolchains; tasks are known."""
        machines = [machine for machine, _ in numbers]
        tasks = [self.tasks[row.task_key] for row in rows]
        groups = [
            self._group(task, machine, row.simulated)
            for task, machine, row in zip(tasks, machines, rows, strict=True)
        ]
        self._cite(rows, slots)
        states = [hash(row.state) for row in rows]
        self.ids.extend([row.id for row in rows])
        self.key.extend([row.key for row in rows])
        self.task.extend(tasks)
        self.machine.extend(machines)
        self.toolchain.extend([toolchain for _, toolchain in numbers])
        self.day.extend([row.at / DAY_SECS for row in rows])
        self.group.extend(groups)
        self.kind.extend([self._kind(*pair) for pair in zip(groups, rows, strict=True)])
        self.choice.extend([int(row.proposal_key[:16], 16) for row in rows])
        self.state.extend(states)
        self.parent.extend([_parent(row) for row in rows])
        self.change.extend([self._change(row) for row in rows])
        self.slot.extend(slots.of(states))
        self._time(rows, np.array(groups))
        self._take_back(rows)
        self._value = None
        self.version += 1

    def _time(self, rows: Sequence[Outline], groups: NDArray[np.int64]) -> None:
        secs = np.array([_shown_secs(row) for row in rows])
        self.secs.extend(secs)
        np.fmin.at(self._best.values, groups, secs)
        untuned = np.array([row.baseline_secs for row in rows])
        self.untuned_secs.values[groups[untuned > 0]] = untuned[untuned > 0]

    def _take_back(self, rows: Sequence[Outline]) -> None:
        """Hide what was right until one of the last `rows` refuted it: the last word counts."""
        first = len(self) - len(rows)
        teaches = [bool(row.code) and row.code not in _NOT_THE_SCHEDULE for row in rows]
        failed = first + np.flatnonzero(teaches)
        if not len(failed):
            return
        secs, state = self.secs.values, self.state.values
        right = np.flatnonzero(np.isfinite(secs))
        for row in right[np.isin(state[right], state[failed])]:
            later = failed[failed > row]
            later = later[state[later] == state[row]]
            is_same = self.group.values[later] == self.group.values[row]
            if np.any(is_same & (self.choice.values[later] == self.choice.values[row])):
                secs[row] = np.nan
                group = self.group.values == self.group.values[row]
                best = np.fmin.reduce(secs[group], initial=np.inf)
                self._best.values[self.group.values[row]] = best

    def _cite(self, rows: Sequence[Outline], slots: Slots) -> None:
        citing: list[int] = []
        cited: list[int] = []
        for number, row in enumerate(rows, len(self)):
            if len(row.cites) > len("[]") and row.code not in _NOT_THE_SCHEDULE:
                found = {slots.cited(state) for state in json.loads(row.cites)}
                citing += [number] * len(found)
                cited += found
        self._citing.extend(citing)
        self._cited.extend(cited)

    def _change(self, row: Outline) -> int:
        key = (row.space or row.lane, row.change)
        return self.changes.setdefault(key, len(self.changes))

    def _kind(self, group: int, row: Outline) -> int:
        return self._kinds.setdefault((group, row.space or row.lane), len(self._kinds))

    def _group(self, task: int, machine: int, simulated: bool) -> int:
        key = (task, machine, simulated)
        if key not in self._groups:
            self._groups[key] = len(self._groups)
            self._best.extend([np.inf])
            self.untuned_secs.extend([0.0])
            self.simulated.extend([simulated])
        return self._groups[key]

    def mark_cited(self, slots: Mapping[int, int]) -> None:
        """Give the rows of states that were cited since their slots, by the states' hashes."""
        states = np.fromiter(slots, np.int64, len(slots))
        rows = np.flatnonzero(
            (self.slot.values == NEVER_CITED) & np.isin(self.state.values, states)
        )
        if len(rows):
            self.slot.values[rows] = [slots[int(state)] for state in self.state.values[rows]]

    def credit(self, num_slots: int) -> Sums:
        """What came of this shelf's outcomes for those that they cite."""
        value = self.value()[self._citing.values]
        return Sums.of(self._cited.values, value, num_slots)

    def value(self) -> NDArray[np.float64]:
        """Best time of the same task and machine over its own: 1 best, 0 failed, NaN hidden."""
        if self._value is None:
            secs = self.secs.values
            self._value = np.zeros(len(secs))
            best = self._best.values[self.group.values]
            np.divide(best, secs, out=self._value, where=secs != np.inf)
        return self._value

    def secs_before(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """The time of each row's parent among the same rows and in the same group.

        NaN where it was not measured, or where nothing was changed.
        """
        parent = self.parent.values[rows]
        untuned = self.untuned_secs.values[self.group.values[rows]]
        before = np.where(parent == UNTUNED, untuned, self._parent_secs(rows))
        return np.where((parent == NO_EDGE) | (before <= 0), np.nan, before)

    def _parent_secs(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        secs, scatter = self.secs.values[rows], self.group.values[rows] * np.int64(_SCATTER)
        measured = np.isfinite(secs)
        states = (self.state.values[rows] ^ scatter)[measured]
        if not len(states):
            return np.full(len(rows), np.nan)
        order = np.argsort(states, kind="stable")
        wanted = self.parent.values[rows] ^ scatter
        at = np.minimum(np.searchsorted(states[order], wanted), len(states) - 1)
        found = order[at]
        return np.where(states[found] == wanted, secs[measured][found], np.nan)


def _shown_secs(row: Outline) -> float:
    if row.suspicious or row.code in _NOT_THE_SCHEDULE:
        return float("nan")
    return row.secs if row.secs and not row.code else float("inf")


def _parent(row: Outline) -> int:
    if not row.change or row.parent == row.state:
        return NO_EDGE
    return hash(row.parent) if row.parent else UNTUNED
