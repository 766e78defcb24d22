# SPDX-License-Identifier: Apache-2.0
"""Lessons: short rules distilled from many decisions, demoted and dropped once contradicted.

A contradiction takes away what two pieces of evidence gave: what is left is the strength of a
lesson. The strongest are told first; one whose strength is below 0 is dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import exp, log
from typing import Any

from kope_tvm.memory.rows import Outline, Row, content_key

CLEAR = 1.05
"""A lead that counts as one."""


@dataclass(frozen=True)
class Lesson:
    """A rule for one kind of operator on one machine."""

    op_class: str
    machine_key: str
    space: str
    """The space it is about, a lane where that has no spaces; for a change of one of its knobs
    `<space>: <change> helped` or `hurt`.
    """
    text: str
    supports: tuple[str, ...]
    """Keys of the experiences that bear it out."""
    contradicts: tuple[str, ...]

    @property
    def key(self) -> str:
        """What it claims; evidence and wording may change under it."""
        return content_key("fastest", self.op_class, self.machine_key, self.space)

    @property
    def evidence_count(self) -> int:
        return len(self.supports) + len(self.contradicts)

    @property
    def strength(self) -> int:
        """What is for it less twice what is against it."""
        return len(self.supports) - 2 * len(self.contradicts)

    @property
    def holds(self) -> bool:
        """Whether twice as much is for it as against it."""
        return bool(self.supports) and self.strength >= 0

    def told(self, where: str = "") -> str:
        """What it says, how much bears it out, and where that was seen."""
        place = f", on {where}" if where else ""
        return f"{self.text} ({len(self.supports)} for, {len(self.contradicts)} against{place})"

    def row(self, seen_at: float) -> Row:
        """The lesson node."""
        return {
            "key": self.key,
            "op_class": self.op_class,
            "machine_key": self.machine_key,
            "space": self.space,
            "text": self.text,
            "seen_at": seen_at,
        }

    def evidence_rows(self) -> Iterator[Row]:
        """The edges to its evidence."""
        for keys, supports in ((self.supports, True), (self.contradicts, False)):
            for key in keys:
                yield {"lesson_key": self.key, "decision_key": key, "supports": supports}

    @classmethod
    def from_row(cls, row: Mapping[str, Any], evidence: Iterable[tuple[str, bool]]) -> Lesson:
        """The lesson of a node and its (decision key, supports) edges."""
        sides: dict[bool, list[str]] = {True: [], False: []}
        for key, supports in evidence:
            sides[supports].append(key)
        return cls(
            row["op_class"], row["machine_key"], row["space"], row["text"],
            tuple(sides[True]), tuple(sides[False]),
        )  # fmt: skip


_Ratios = dict[str, tuple[float, str, str]]
"""Best ratio of each space over the untuned function, and the experience and state that reached it.
"""
_Place = tuple[str, str]
"""Operator class and machine key."""


class Leaders:
    """The fastest experience of each task, machine and space: all that lessons follow from.

    A task counts once a space, and only where it was measured in two spaces or more.
    """

    def __init__(self) -> None:
        self._best: dict[_Place, dict[str, _Ratios]] = {}
        self._lessons: dict[_Place, tuple[Lesson, ...]] = {}
        """What was distilled since the place saw a faster one."""

    def add(self, op_class: str, outlines: Iterable[Outline]) -> None:
        """Take in what was measured honestly on tasks of one operator class."""
        for row in outlines:
            if row.code not in ("", "E_DEVICE"):
                self._take_back((op_class, row.machine_key), row)
            if row.secs and row.baseline_secs > 0 and not (row.suspicious or row.simulated):
                place = (op_class, row.machine_key)
                ratios = self._best.setdefault(place, {}).setdefault(row.task_key, {})
                space = row.space or row.lane
                candidate = (row.baseline_secs / row.secs, row.key, row.state)
                if candidate > ratios.get(space, (0.0, "", "")):
                    ratios[space] = candidate
                    self._lessons.pop(place, None)

    def _take_back(self, place: _Place, row: Outline) -> None:
        """What was the fastest and is refuted leads no more; the next to be measured may."""
        ratios = self._best.get(place, {}).get(row.task_key, {})
        for space, (_, _, state) in [*ratios.items()]:
            if state == row.state:
                del ratios[space]
                self._lessons.pop(place, None)

    def lessons(self, op_class: str, machine_key: str) -> tuple[Lesson, ...]:
        """The lessons that hold in one place, the best founded first."""
        place = (op_class, machine_key)
        if place not in self._lessons:
            self._lessons[place] = _distilled(place, self._best.get(place, {}))
        return self._lessons[place]


def _distilled(place: _Place, tasks: Mapping[str, _Ratios]) -> tuple[Lesson, ...]:
    spaces = {space for ratios in tasks.values() for space in ratios}
    lessons = (_lesson(*place, space, tasks) for space in spaces)
    return ranked(lesson for lesson in lessons if lesson.holds)


def ranked(lessons: Iterable[Lesson]) -> tuple[Lesson, ...]:
    """The strongest first."""
    return tuple(sorted(lessons, key=lambda lesson: (-lesson.strength, lesson.key)))


def _lesson(op_class: str, machine_key: str, space: str, tasks: Mapping[str, _Ratios]) -> Lesson:
    supports, contradicts, logs = [], [], []
    for ratios in tasks.values():
        rivals = [ratio for other, (ratio, *_) in ratios.items() if other != space]
        if space not in ratios or not rivals:
            continue
        ratio, key, _ = ratios[space]
        lead = ratio / max(rivals)
        logs.append(log(lead))
        if lead >= CLEAR:
            supports.append(key)
        elif lead <= 1 / CLEAR:
            contradicts.append(key)
    geomean = exp(sum(logs) / len(logs)) if logs else 1.0
    text = f"{op_class}: {space} is {geomean:.2f}x the best other space over {len(logs)} tasks"
    return Lesson(
        op_class, machine_key, space, text, tuple(sorted(supports)), tuple(sorted(contradicts))
    )
