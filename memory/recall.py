# SPDX-License-Identifier: Apache-2.0
"""Recall: the experiences most likely to help a task, ranked by similarity x value, and why.

The index is arrays by operator class; texts stay in the store and are fetched for what was chosen
only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass
from heapq import merge

import numpy as np
from numpy.typing import NDArray

from kope_tvm.memory.experience import Experience, Recalled
from kope_tvm.memory.index import ExperienceIndex
from kope_tvm.memory.rows import measured_secs
from kope_tvm.memory.shelf import Shelf
from kope_tvm.memory.similarity import OTHER_CLASS
from kope_tvm.task import Task

SLOW = 0.5
"""A value from which on down a measured experience is a warning rather than an example."""
_FIRST_LOOK = 64
_STRIDE = 32
"""Of how many rows one is looked at to guess where the greatest begin."""


@dataclass(frozen=True)
class _Hit:
    id: int
    choice: int
    similarity: float
    value: float
    score: float


@dataclass(frozen=True)
class _View:
    """A shelf as one task sees it."""

    shelf: Shelf
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
        size = _FIRST_LOOK
        while True:
            rows = _leading(score, size)
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


def _leading(score: NDArray[np.float64], size: int) -> NDArray[np.intp]:
    """Rows that hold the `size` greatest positive scores and few others, or all positive ones."""
    sample = score[::_STRIDE]
    sample = sample[sample > 0]  # Leaves out NaN, which is hidden.
    place = len(sample) - 2 * (size // _STRIDE + 1)
    if place > 0:
        rows = np.flatnonzero(score >= np.partition(sample, place)[place])
        if len(rows) > size:
            return rows
    return np.flatnonzero(score > 0)


def _choose(index: ExperienceIndex, task: Task, limit: int) -> list[_Hit]:
    """The best examples in order, then one warning where there is one."""
    machines = index.machine_similarities(task)
    own = task.features.op_class
    good: dict[int, _Hit] = {}
    bad: dict[int, _Hit] = {}
    for is_own in (True, False):
        views = [
            _view(index, shelf, task, machines, 1.0 if is_own else OTHER_CLASS)
            for name, shelf in index.shelves.items()
            if (name == own) is is_own
        ]
        _fill(good, (view.examples() for view in views), limit)
        leading = {hit.choice for hit in [*good.values()][: limit - 1] if hit.value > SLOW}
        _fill(bad, (view.warnings() for view in views), 1, without=leading)
        if len(good) >= limit:
            break
    return _joined([*good.values()], [*bad.values()], limit)


def _view(
    index: ExperienceIndex,
    shelf: Shelf,
    task: Task,
    machines: NDArray[np.float64],
    weight: float,
) -> _View:
    tasks = index.task_similarities(task, shelf) * weight
    alike = tasks[shelf.task.values] * machines[shelf.machine.values]
    return _View(shelf, alike, shelf.value())


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
    hits = _choose(index, task, limit)
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
