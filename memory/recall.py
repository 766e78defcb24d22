# SPDX-License-Identifier: Apache-2.0
"""Recall: the experiences most likely to help a task, ranked by what each is worth, and why.

    score = task similarity * machine similarity * value * Q_valid * Q_fast * freshness
            / (tokens / 128)^0.05 * 0.85^n

`value` is the best known time of its task on its machine over its own. Q_valid and Q_fast are
learned, see `memory.credit`; freshness is that of `memory.index`. Proposals of more than 128 tokens
pay for them: a dear text loses to one a tenth as long where that is worth 0.9 of it. `n` counts the
better examples of the same task, machine and space: they say much the same, and another space or
task is worth a place. The last place goes to a warning, of what failed or took twice the best time,
by similarity * (1 - value). The index is arrays by operator class; texts stay in the store and are
fetched for what was chosen only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from heapq import merge
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kope_tvm.memory.experience import Experience, Factors, Recalled
from kope_tvm.memory.index import Array, ExperienceIndex, Worth
from kope_tvm.memory.rows import measured_secs
from kope_tvm.memory.shelf import Shelf
from kope_tvm.memory.similarity import OTHER_CLASS
from kope_tvm.task import Task

SLOW = 0.5
"""A value from which on down a measured experience is a warning rather than an example."""
CHARS_PER_TOKEN = 4
FREE_TOKENS = 128
"""Up to which no proposal is dear."""
THRIFT = 0.05
"""Power of a proposal's tokens that its score is divided by."""
AGAIN = 0.85
"""What each better example of the same task, machine and space leaves of a score."""
_LOOKED_AT = 12
"""Examples that are looked at, a place."""
_SPARE = 3
"""Examples whose tokens are looked at, a place."""
_FIRST_LOOK = 64
_STRIDE = 32
"""Of how many rows one is looked at to guess where the greatest begin."""


class _Place(NamedTuple):
    """A row of a view with what orders it."""

    score: float
    choice: int
    kind: tuple[str, int]
    """Operator class and `Shelf.kind`."""
    view: _View
    row: int

    @property
    def id(self) -> int:
        return int(self.view.shelf.ids.values[self.row])


class _Priced(NamedTuple):
    """A place with what its proposal costs, and the score that is left."""

    score: float
    tokens: int
    place: _Place


@dataclass(frozen=True)
class _View:
    """A shelf as one task sees it."""

    op_class: str
    shelf: Shelf
    worth: Worth
    tasks: Array
    machines: Array
    similarity: Array
    value: Array

    @classmethod
    def of(
        cls, index: ExperienceIndex, op_class: str, task: Task, machines: Array, weight: float
    ) -> _View:
        shelf = index.shelves[op_class]
        tasks = index.task_similarities(task, shelf) * weight
        alike = tasks[shelf.task.values] * machines[shelf.machine.values]
        return cls(op_class, shelf, index.worth(op_class), tasks, machines, alike, shelf.value())

    def examples(self) -> Iterator[_Place]:
        """What was measured, most promising first."""
        return self._ranked(self.similarity * self.worth.total)

    def warnings(self) -> Iterator[_Place]:
        """What failed or was slow, most telling first."""
        badness = self.similarity * (1.0 - self.value)
        return self._ranked(np.where(self.value <= SLOW, badness, 0.0))

    def _ranked(self, score: Array) -> Iterator[_Place]:
        """Rows of positive score, best first and of equals the newest; some come repeatedly."""
        size = _FIRST_LOOK
        while True:
            rows = _leading(score, size)
            top = rows
            if size < len(rows):
                top = rows[np.argpartition(-score[rows], size)[:size]]
            top = top[np.lexsort((-self.shelf.ids.values[top], -score[top]))]
            yield from self._places(top, score[top])
            if size >= len(rows):
                return
            size *= 8

    def _places(self, rows: NDArray[np.intp], scores: Array) -> Iterator[_Place]:
        choices, kinds = self.shelf.choice.values[rows], self.shelf.kind.values[rows]
        columns = (scores.tolist(), choices.tolist(), kinds.tolist(), rows.tolist())
        for score, choice, kind, row in zip(*columns, strict=True):
            yield _Place(score, choice, (self.op_class, kind), self, row)

    def factors(self, priced: _Priced) -> Factors:
        """What made up the score of a place of this view."""
        shelf, worth, row = self.shelf, self.worth, priced.place.row
        slot = shelf.slot.values[row]
        return Factors(
            task_similarity=float(self.tasks[shelf.task.values[row]]),
            machine_similarity=float(self.machines[shelf.machine.values[row]]),
            q_valid=float(worth.valid[slot]),
            q_fast=float(worth.fast[slot]),
            freshness=float(worth.freshness[row]),
            tokens=priced.tokens,
            score=priced.score,
        )


def _leading(score: Array, size: int) -> NDArray[np.intp]:
    """Rows that hold the `size` greatest positive scores and few others, or all positive ones."""
    sample = score[::_STRIDE]
    sample = sample[sample > 0]  # Leaves out NaN, which is hidden.
    place = len(sample) - 2 * (size // _STRIDE + 1)
    if place > 0:
        rows = np.flatnonzero(score >= np.partition(sample, place)[place])
        if len(rows) > size:
            return rows
    return np.flatnonzero(score > 0)


def _choose(index: ExperienceIndex, task: Task, limit: int) -> list[_Priced]:
    """The best examples in order, then one warning where there is one."""
    machines = index.machine_similarities(task)
    own = task.features.op_class
    good: dict[int, _Place] = {}
    bad: dict[int, _Place] = {}
    for is_own in (True, False):
        views = [
            _View.of(index, name, task, machines, 1.0 if is_own else OTHER_CLASS)
            for name in index.shelves
            if (name == own) is is_own
        ]
        found: dict[int, _Place] = {}
        _fill(found, (view.examples() for view in views), _LOOKED_AT * limit)
        for place in _spread([*found.values()])[: _SPARE * limit]:
            good.setdefault(place.choice, place)
        _fill(bad, (view.warnings() for view in views), 1, without=_leading_choices(found, limit))
        if len(good) >= limit:
            break
    return _joined(_thrifty(index, good), _thrifty(index, bad), limit)


def _fill(
    chosen: dict[int, _Place],
    sources: Iterable[Iterator[_Place]],
    limit: int,
    without: Set[int] = frozenset(),
) -> None:
    """Add the best of all sources, one a proposal, until there are `limit`."""
    for place in merge(*sources, key=lambda place: -place.score):
        if len(chosen) >= limit:
            return
        if place.choice not in without:
            chosen.setdefault(place.choice, place)


def _leading_choices(found: Mapping[int, _Place], limit: int) -> Set[int]:
    """Proposals that are among the first examples: what works here is no warning."""
    leading = list(found.values())[: limit - 1]
    return {one.choice for one in leading if one.view.value[one.row] > SLOW}


def _spread(places: Sequence[_Place]) -> list[_Place]:
    """Places, best first, by what better ones of their kind leave of their scores."""
    faded = zip(_faded([(one.kind, one.score) for one in places]), places, strict=True)
    return [place for _, place in sorted(faded, key=lambda pair: -pair[0])]


def _faded(scored: Iterable[tuple[tuple[str, int], float]]) -> Iterator[float]:
    """The scores of kinds, best first, less what better ones of the same kind take."""
    counts: Counter[tuple[str, int]] = Counter()
    for kind, score in scored:
        yield score * AGAIN ** counts[kind]
        counts[kind] += 1


def _thrifty(index: ExperienceIndex, places: Mapping[int, _Place]) -> list[_Priced]:
    """Places in the order of their scores once tokens and likeness to better ones count."""
    ids = [place.id for place in places.values()]
    chars = index.source.proposal_chars(ids) if ids else {}
    pairs = zip(places.values(), ids, strict=True)
    priced = [_priced(place, chars[number]) for place, number in pairs if number in chars]
    priced.sort(key=lambda one: -one.score)
    faded = _faded([(one.place.kind, one.score) for one in priced])
    scored = [one._replace(score=score) for one, score in zip(priced, faded, strict=True)]
    return sorted(scored, key=lambda one: -one.score)


def _priced(place: _Place, chars: int) -> _Priced:
    tokens = chars // CHARS_PER_TOKEN
    score = place.score * (FREE_TOKENS / max(tokens, FREE_TOKENS)) ** THRIFT
    return _Priced(score, tokens, place)


def _joined(good: list[_Priced], bad: list[_Priced], limit: int) -> list[_Priced]:
    if limit < 2 or not bad:
        return good[:limit]
    warning = bad[0]
    others = [one for one in good if one.place.choice != warning.place.choice]
    return [*others[: limit - 1], warning]


def recall(index: ExperienceIndex, task: Task, *, limit: int = 8) -> tuple[Recalled, ...]:
    """The experiences most likely to help, best first, the last of them a warning where known.

    Each proposal comes once. One that was refused for cheating never comes.
    """
    if limit < 1:
        return ()
    index.refresh()
    chosen = _choose(index, task, limit)
    ids = [one.place.id for one in chosen]
    found = index.source.experiences_by_id(ids)
    pairs = zip(chosen, ids, strict=True)
    return tuple(_recalled(one, found[number], task) for one, number in pairs if number in found)


def _recalled(one: _Priced, experience: Experience, task: Task) -> Recalled:
    features, view, row = experience.features, one.place.view, one.place.row
    similarity, value = float(view.similarity[row]), float(view.value[row])
    extents = features.spatial_extents + features.reduce_extents
    what = f"{features.op_class} {'x'.join(map(str, extents))}".strip()
    same = experience.machine_key == task.target.key
    where = "this machine" if same else experience.machine_key
    why = f"{what} on {where}, {_outcome(experience, value)}, similarity {similarity:.2f}"
    return Recalled(experience, similarity, value, why, view.factors(one))


def _outcome(experience: Experience, value: float) -> str:
    secs = measured_secs(experience)
    if not secs:
        return f"failed: {experience.code} {experience.reason}".strip()
    slow = f"slow ({value:.2f} of the best known), " if value <= SLOW else ""
    if not experience.baseline_secs:
        return f"{slow}{secs * 1e6:.4g} us"
    return f"{slow}{experience.baseline_secs / secs:.3g}x its baseline"
