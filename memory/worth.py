# SPDX-License-Identifier: Apache-2.0
"""What each edge of a memory is worth keeping for, task by task.

Held whatever it costs: of every task and machine the fastest of each space, the newest failure of
each code and the slowest program, and all that was refused for cheating. What else there is counts
by its time beside the best one's, halved with its age and with each better trial of the same text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

_HALF_LIFE_SECS = 180 * 86400.0
_FAILURE = 0.1
"""Worth of a failure beside the best program's 1."""
_SLOW = 2.0
"""Times the best, from which on the slowest program is a warning."""

BEST, RULE, WARNING = "best", "rule", "warning"
FAILED, REPEATED, SLOWER = "failed", "repeated", "slower"


class Edge(NamedTuple):
    """What of a decision tells its worth."""

    id: int
    task_key: str
    machine_key: str
    op_class: str
    state: str
    parent: str
    lane: str
    space: str
    proposal_key: str
    code: str
    suspicious: bool
    simulated: bool
    secs: float | None
    at: float

    @property
    def is_measured(self) -> bool:
        return bool(self.secs) and not self.code and not self.suspicious


@dataclass
class Worth:
    """One edge, judged."""

    id: int
    place: tuple[str, str]
    """Operator class and machine."""
    score: float
    why_dropped: str
    """What to say of it where it goes."""
    at: float
    parent_id: int | None = None
    """The edge that made the state which this one starts from."""
    held: str = ""
    """Why it stays; empty where its score decides."""


def worths(edges: Iterator[Edge], now: float) -> Iterator[Worth]:
    """Judge edges that come task by task."""
    for _, group in groupby(edges, key=lambda edge: edge.task_key):
        yield from _of_task(list(group), now)


def _of_task(edges: Sequence[Edge], now: float) -> Iterator[Worth]:
    made = _makers(edges)
    rooms: dict[tuple[str, bool], _Room] = {}
    for edge in edges:
        rooms.setdefault((edge.machine_key, edge.simulated), _Room()).edges.append(edge)
    for room in rooms.values():
        held = room.held()
        ranks = room.ranks()
        best = min((edge.secs or 0.0 for edge in room.measured), default=0.0)
        for edge in room.edges:
            value = best / edge.secs if edge.is_measured and edge.secs else _FAILURE
            halvings = max(now - edge.at, 0.0) / _HALF_LIFE_SECS + ranks[edge.id]
            maker = made.get(edge.parent) if edge.parent != edge.state else None
            yield Worth(
                edge.id,
                (edge.op_class, edge.machine_key),
                value * 0.5**halvings,
                _why(edge, ranks[edge.id]),
                edge.at,
                maker,
                held.get(edge.id, ""),
            )


def _makers(edges: Sequence[Edge]) -> dict[str, int]:
    """The best edge to each state: what was measured, then what is oldest."""
    order = sorted(edges, key=lambda edge: (not edge.is_measured, edge.secs or 0.0, edge.id))
    return {edge.state: edge.id for edge in reversed(order)}


def _why(edge: Edge, rank: int) -> str:
    if edge.code:
        return FAILED
    return REPEATED if rank else SLOWER


@dataclass
class _Room:
    """The edges of one task and machine: those whose times may be compared."""

    edges: list[Edge] = field(default_factory=list)

    @property
    def measured(self) -> list[Edge]:
        return [edge for edge in self.edges if edge.is_measured]

    def held(self) -> dict[int, str]:
        """Why edges are held, by id; of several reasons the weightiest."""
        held: dict[int, str] = {}
        failures = {edge.code: edge for edge in self.edges if edge.code and not edge.suspicious}
        held |= {edge.id: WARNING for edge in failures.values()}
        ranked = sorted(self.measured, key=lambda edge: (edge.secs, edge.id))
        if ranked and (ranked[-1].secs or 0.0) >= _SLOW * (ranked[0].secs or 0.0):
            held[ranked[-1].id] = WARNING
        fastest = {edge.space or edge.lane: edge.id for edge in reversed(ranked)}
        held |= dict.fromkeys(fastest.values(), BEST)
        return held | {edge.id: RULE for edge in self.edges if edge.suspicious}

    def ranks(self) -> dict[int, int]:
        """By id how many better trials of the same proposal there are."""
        order = sorted(self.edges, key=lambda edge: (not edge.is_measured, edge.secs or 0.0))
        seen: dict[str, int] = {}
        ranks = {}
        for edge in order:
            ranks[edge.id] = seen.get(edge.proposal_key, 0)
            seen[edge.proposal_key] = ranks[edge.id] + 1
        return ranks
