# SPDX-License-Identifier: Apache-2.0
"""How relative decisions fared where they were carried to: another task, another machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import exp, log

import sqlalchemy as sa

from kope_tvm.memory.database import TABLES
from kope_tvm.memory.store import Store


@dataclass(frozen=True)
class Transfer:
    """One relative decision on its way between two machines, which may be the same."""

    relative: str
    """As `relative.wording` writes it; empty for what was replayed as it was."""
    space: str
    """Where it was carried to; the lane where that has no spaces."""
    machine_from: str
    machine_to: str
    carried: int
    """Outcomes of it."""
    failed: int
    ratio: float
    """Geometric mean of the speed-ups over the untuned function there, each over the one it had
    where it came from; 0 where nothing tells.
    """


_Place = tuple[str, str, str, str]


def transfers(store: Store) -> tuple[Transfer, ...]:
    """Every relative decision that was carried over, the most often carried first."""
    groups: dict[_Place, list[float | None]] = {}
    for place, ratio in _edges(store):
        groups.setdefault(place, []).append(ratio)
    found = [_transfer(place, ratios) for place, ratios in groups.items()]
    return tuple(sorted(found, key=lambda one: (-one.carried, -one.ratio, one.relative)))


def _transfer(place: _Place, ratios: Sequence[float | None]) -> Transfer:
    """`ratios` are None for failures, and 0 where a time is missing."""
    logs = [log(ratio) for ratio in ratios if ratio]
    mean = exp(sum(logs) / len(logs)) if logs else 0.0
    return Transfer(*place, len(ratios), sum(ratio is None for ratio in ratios), mean)


def _edges(store: Store) -> Iterator[tuple[_Place, float | None]]:
    edge = TABLES["transfer"]
    source, target = TABLES["decision"].alias(), TABLES["decision"].alias()
    query = (
        sa.select(
            *(edge.c.relative, target.c.space, target.c.lane),
            *(source.c.machine_key, target.c.machine_key, target.c.code),
            *(source.c.secs, source.c.baseline_secs, target.c.secs, target.c.baseline_secs),
        )
        .join_from(edge, source, source.c.key == edge.c.source_key)
        .join(target, target.c.key == edge.c.target_key)
    )
    with store.database.reading() as connection:
        found = connection.execute(query)
        for relative, space, lane, machine_from, machine_to, code, *times in found:
            ratio = _ratio(*times) if not code else None
            yield (relative, space or lane, machine_from, machine_to), ratio


def _ratio(
    secs_from: float | None, untuned_from: float, secs_to: float | None, untuned_to: float
) -> float:
    if not (secs_from and untuned_from and secs_to and untuned_to):
        return 0.0
    return (untuned_to / secs_to) / (untuned_from / secs_from)
