# SPDX-License-Identifier: Apache-2.0
"""Forgetting: what is worth least goes, and nothing that something worth more stands on.

`worth` says what is held and what the rest counts for. Beyond it every operator class keeps its
best few on every machine, and what is kept keeps the edges it came from: its parents up to the
untuned function, the failure it mends, and what it was carried over from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from kope_tvm.memory.database import TABLES, Database
from kope_tvm.memory.paging import chunks
from kope_tvm.memory.worth import Edge, Worth, worths

KEEP = 100_000
"""Edges kept where nobody says how many: recall is measured to be quick on as many."""
_FLOOR = 32
"""Edges that every operator class keeps on every machine."""
_CHAIN, _FLOOR_HELD, _YOUNG, _VALUE = "chain", "diversity", "young", "value"

_DECISION, _TASK = TABLES["decision"], TABLES["task"]
_REFERRING = (("evidence", "decision_key"), ("repair", "failed_key"), ("repair", "repaired_key"),
              ("transfer", "source_key"), ("transfer", "target_key"))  # fmt: skip
_ORPHANS = (
    "DELETE FROM proposal WHERE key NOT IN (SELECT proposal_key FROM decision)",
    # Not by NOT IN, for which SQLite would look through all decisions for each of two columns.
    """DELETE FROM state WHERE (task_key, key) IN (
        SELECT task_key, key FROM state EXCEPT SELECT task_key, state FROM decision
        EXCEPT SELECT task_key, parent FROM decision)""",
)
_LOCKS = (
    # In the order in which a writer takes them; none comes between what refers and what it refers
    # to. The index is for the checks of the foreign key, which would read all decisions each.
    "LOCK TABLE task, machine, state, proposal, decision IN SHARE ROW EXCLUSIVE MODE",
    "CREATE INDEX decision_while_pruned ON decision (proposal_key)",
)
_UNLOCK = "DROP INDEX decision_while_pruned"


@dataclass(frozen=True)
class Pruned:
    """What went, what stayed, and why."""

    before: int
    kept: dict[str, int]
    """Edges by what they are kept for: `best`, `rule` (refused for cheating), `warning`, `chain`
    (a kept one came from it), `diversity`, `young` or `value`.
    """
    dropped: dict[str, int]
    """Edges by what they were: `failed`, `repeated` or `slower`."""
    bytes_freed: int = 0

    @property
    def num_kept(self) -> int:
        return sum(self.kept.values())

    @property
    def num_dropped(self) -> int:
        return sum(self.dropped.values())


def prune(database: Database, keep: int, youngest_at: float, now: float, *, apply: bool) -> Pruned:
    """Keep about `keep` edges, and all that were made after `youngest_at`.

    More are kept where more are held. Without `apply` it only says what would happen.
    """
    judged = list(worths(_edges(database), now))
    _hold_floor(judged)
    for worth in judged:
        if not worth.held and worth.at > youngest_at:
            worth.held = _YOUNG
    sources = _sources(database)
    _hold_needed(judged, sources)
    _hold_top(judged, keep, _VALUE)
    _hold_needed(judged, sources)
    dropped = [worth for worth in judged if not worth.held]
    before_bytes = database.num_bytes()
    if apply and dropped:
        _drop(database, [worth.id for worth in dropped])
    return Pruned(
        len(judged),
        dict(Counter(worth.held for worth in judged if worth.held)),
        dict(Counter(worth.why_dropped for worth in dropped)),
        max(before_bytes - database.num_bytes(), 0),
    )


def _edges(database: Database) -> Iterator[Edge]:
    columns = [(_TASK if name == "op_class" else _DECISION).c[name] for name in Edge._fields]
    query = (
        sa.select(*columns)
        .join_from(_DECISION, _TASK, _DECISION.c.task_key == _TASK.c.key)
        .order_by(_DECISION.c.task_key, _DECISION.c.id)
    )
    with database.reading() as connection:
        for row in connection.execution_options(yield_per=1000).execute(query):
            yield Edge(*row)


def _sources(database: Database) -> Mapping[int, list[int]]:
    """By id what an edge mends and what it was carried over from."""
    found: dict[int, list[int]] = {}
    for name, earlier, later in (
        ("repair", "failed_key", "repaired_key"),
        ("transfer", "source_key", "target_key"),
    ):
        edge, one, other = TABLES[name], _DECISION.alias(), _DECISION.alias()
        query = (
            sa.select(other.c.id, one.c.id)
            .join_from(edge, one, edge.c[earlier] == one.c.key)
            .join(other, edge.c[later] == other.c.key)
        )
        with database.reading() as connection:
            for target, source in connection.execute(query):
                found.setdefault(target, []).append(source)
    return found


def _hold_floor(judged: Iterable[Worth]) -> None:
    places: dict[tuple[str, str], list[Worth]] = {}
    for worth in judged:
        places.setdefault(worth.place, []).append(worth)
    for found in places.values():
        _hold_top(found, _FLOOR, _FLOOR_HELD)


def _hold_top(found: list[Worth], count: int, why: str) -> None:
    """Hold the best until that many are held."""
    room = count - sum(bool(worth.held) for worth in found)
    free = [worth for worth in found if not worth.held]
    free.sort(key=lambda worth: (-worth.score, -worth.at, worth.id))
    for worth in free[: max(room, 0)]:
        worth.held = why


def _hold_needed(judged: Iterable[Worth], sources: Mapping[int, list[int]]) -> None:
    """Hold what the held ones came from, as far back as it goes."""
    by_id = {worth.id: worth for worth in judged}
    waiting = [worth for worth in by_id.values() if worth.held]
    while waiting:
        worth = waiting.pop()
        for number in (worth.parent_id, *sources.get(worth.id, ())):
            needed = by_id.get(number) if number is not None else None
            if needed is not None and not needed.held:
                needed.held = _CHAIN
                waiting.append(needed)


def _drop(database: Database, ids: list[int]) -> None:
    """Safe to break off: what is left is whole, and the next call drops the rest."""
    for chunk in chunks(ids):
        with database.writing() as connection:
            _drop_chunk(connection, chunk)
    with database.writing() as connection:
        is_server = connection.dialect.name == "postgresql"
        for statement in (*_LOCKS * is_server, *_ORPHANS, *(_UNLOCK,) * is_server):
            connection.exec_driver_sql(statement)
    database.compact()


def _drop_chunk(connection: sa.Connection, ids: list[int]) -> None:
    keys = [
        *connection.execute(sa.select(_DECISION.c.key).where(_DECISION.c.id.in_(ids))).scalars()
    ]
    for name, column in _REFERRING:
        table: Any = TABLES[name]
        connection.execute(sa.delete(table).where(table.c[column].in_(keys)))
    connection.execute(sa.delete(_DECISION).where(_DECISION.c.id.in_(ids)))
