# SPDX-License-Identifier: Apache-2.0
"""Lessons: short rules distilled from many decisions, dead once contradicted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import exp, log
from typing import Any

from kope_tvm.memory.rows import Comparison, Row, content_key

_CLEAR = 1.05
"""A lead that counts as one."""


@dataclass(frozen=True)
class Lesson:
    """A rule for one kind of operator on one machine."""

    op_class: str
    machine_key: str
    space: str
    """The space it is about; a lane where that has no spaces."""
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
    def holds(self) -> bool:
        return len(self.supports) > len(self.contradicts)

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


def distil(comparisons: Iterable[Comparison]) -> tuple[Lesson, ...]:
    """The lessons that hold: which space is fastest, by operator class and machine.

    A task counts once a space, by that space's best ratio over the untuned function, and only
    where it was measured in two spaces or more.
    """
    found = []
    for (op_class, machine_key), tasks in _best(comparisons).items():
        spaces = sorted({space for ratios in tasks.values() for space in ratios})
        for space in spaces:
            lesson = _lesson(op_class, machine_key, space, tasks)
            if lesson.holds:
                found.append(lesson)
    return tuple(sorted(found, key=lambda lesson: (-len(lesson.supports), lesson.key)))


_Ratios = dict[str, tuple[float, str]]
"""Best ratio of each space, and the experience that reached it."""


def _best(comparisons: Iterable[Comparison]) -> dict[tuple[str, str], dict[str, _Ratios]]:
    best: dict[tuple[str, str], dict[str, _Ratios]] = defaultdict(lambda: defaultdict(dict))
    for row in comparisons:
        ratios = best[row.op_class, row.machine_key][row.task_key]
        space = row.space or row.lane
        candidate = (row.baseline_secs / row.secs, row.key)
        ratios[space] = max(ratios.get(space, candidate), candidate)
    return best


def _lesson(op_class: str, machine_key: str, space: str, tasks: Mapping[str, _Ratios]) -> Lesson:
    supports, contradicts, logs = [], [], []
    for ratios in tasks.values():
        rivals = [ratio for other, (ratio, _) in ratios.items() if other != space]
        if space not in ratios or not rivals:
            continue
        ratio, key = ratios[space]
        lead = ratio / max(rivals)
        logs.append(log(lead))
        if lead >= _CLEAR:
            supports.append(key)
        elif lead <= 1 / _CLEAR:
            contradicts.append(key)
    geomean = exp(sum(logs) / len(logs)) if logs else 1.0
    text = f"{op_class}: {space} is {geomean:.2f}x the best other space over {len(logs)} tasks"
    return Lesson(
        op_class, machine_key, space, text, tuple(sorted(supports)), tuple(sorted(contradicts))
    )
