# SPDX-License-Identifier: Apache-2.0
"""Transitions: what one change to a program did to its time, on this task and on similar ones."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log

import numpy as np
from numpy.typing import NDArray

from kope_tvm.memory.index import ExperienceIndex
from kope_tvm.memory.rows import Edge
from kope_tvm.memory.shelf import UNTUNED, Shelf
from kope_tvm.task import Task

_LOOKED_AT = 1 << 13
"""Decisions that are looked at: those of the most similar tasks, of each the newest."""
_TELLING = log(4.0)
"""A log ratio from which on a change tells no more: what came before it was no program to keep."""
_FAILURE = log(2.0)
"""What a failure tells, as a log ratio."""
_FROM_UNTUNED = 0.5
"""Weight of a change to the untuned function: most that is done to it makes it faster."""
_SPARE = 4
"""Candidates fetched a place, as many say the same."""


@dataclass(frozen=True)
class Transition:
    """A change, and what came of it."""

    change: str
    ratio: float
    """Time before over time after, above 1 where it became faster; 0 where it failed."""
    code: str
    reason: str
    """Of the failure."""
    task_name: str
    similarity: float
    """0..1 over task and machine."""
    space: str
    lane: str
    state: str = ""
    """What the change led to."""

    @property
    def is_negative(self) -> bool:
        return self.ratio < 1.0


@dataclass(frozen=True)
class _Edges:
    """Changes of measured programs, with -inf as the log ratio of a failure."""

    ids: NDArray[np.int64]
    log_ratio: NDArray[np.float64]
    similarity: NDArray[np.float64]
    weight: NDArray[np.float64]

    def where(self, kept: NDArray[np.bool_]) -> _Edges:
        return _Edges(
            self.ids[kept], self.log_ratio[kept], self.similarity[kept], self.weight[kept]
        )

    def top(self, count: int) -> _Edges:
        """The most useful ones, best first and of equals the newest."""
        size = np.where(np.isinf(self.log_ratio), _FAILURE, np.abs(self.log_ratio))
        score = self.similarity * self.weight * np.minimum(size, _TELLING)
        rows = np.arange(len(score))
        if count < len(rows):
            rows = np.argpartition(-score, count)[:count]
        order = rows[np.lexsort((-self.ids[rows], -score[rows]))]
        return _Edges(
            self.ids[order], self.log_ratio[order], self.similarity[order], self.weight[order]
        )


def transitions(index: ExperienceIndex, task: Task, *, limit: int = 8) -> tuple[Transition, ...]:
    """The changes that tell most about a task, best first; each change comes once.

    Where any made it worse or failed, the last place goes to such a one unless one leads anyway.
    """
    index.refresh()
    shelf = index.shelves.get(task.features.op_class)
    if shelf is None or limit < 1:
        return ()
    edges = _edges(index, shelf, task)
    best = _worded(index, edges.top(_SPARE * limit))
    chosen = best[:limit]
    if any(one.is_negative for one in chosen):
        return tuple(chosen)
    worse = _worded(index, edges.where(edges.log_ratio < 0).top(_SPARE))
    told = {one.change for one in chosen[: limit - 1]}
    warning = [one for one in worse if one.change not in told][:1]
    return (*chosen[: limit - len(warning)], *warning)


def _edges(index: ExperienceIndex, shelf: Shelf, task: Task) -> _Edges:
    tasks = index.task_similarities(task, shelf)
    rows = _nearest(shelf, tasks)
    before, after = shelf.secs_before(rows), shelf.secs.values[rows]
    is_edge = ~np.isnan(before) & ~np.isnan(after)
    rows, before, after = rows[is_edge], before[is_edge], after[is_edge]
    with np.errstate(divide="ignore"):
        log_ratio = np.log(before / after)
    machines = index.machine_similarities(task)
    similarity = tasks[shelf.task.values[rows]] * machines[shelf.machine.values[rows]]
    weight = np.where(shelf.parent.values[rows] == UNTUNED, _FROM_UNTUNED, 1.0)
    return _Edges(shelf.ids.values[rows], log_ratio, similarity, weight)


def _nearest(shelf: Shelf, tasks: NDArray[np.float64]) -> NDArray[np.int64]:
    """The rows of the most similar tasks, of a very large one the newest."""
    counts = np.bincount(shelf.task.values, minlength=len(tasks))
    order = np.argsort(-tasks, kind="stable")
    is_near = np.zeros(len(tasks), np.bool_)
    is_near[order[: max(1, np.searchsorted(np.cumsum(counts[order]), _LOOKED_AT, "right"))]] = True
    rows = np.flatnonzero(is_near[shelf.task.values])
    return rows[-_LOOKED_AT:]


def _worded(index: ExperienceIndex, edges: _Edges) -> list[Transition]:
    """The edges with what the store says of them, each change once."""
    words = index.source.edges_by_id([int(number) for number in edges.ids])
    told: dict[tuple[str, str, str], Transition] = {}
    pairs = zip(edges.ids, edges.log_ratio, edges.similarity, strict=True)
    for number, log_ratio, similarity in pairs:
        edge = words.get(int(number))
        if edge is not None:
            key = (edge.lane, edge.space, edge.change)
            told.setdefault(key, _transition(edge, float(log_ratio), float(similarity)))
    return list(told.values())


def _transition(edge: Edge, log_ratio: float, similarity: float) -> Transition:
    return Transition(
        change=edge.change,
        ratio=exp(log_ratio),
        code=edge.code,
        reason=edge.reason,
        task_name=edge.task_name,
        similarity=similarity,
        space=edge.space,
        lane=edge.lane,
        state=edge.state,
    )
