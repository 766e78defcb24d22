# SPDX-License-Identifier: Apache-2.0
"""Edges between decisions, repairs and transfers: drawn from what the decisions say of each other.

Whichever of two decisions comes last draws the edge between them, so that order changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from kope_tvm.memory.database import TABLES
from kope_tvm.memory.paging import chunks
from kope_tvm.memory.rows import Row

_FROM, _TO = TABLES["decision"].alias("earlier"), TABLES["decision"].alias("later")

# The conditions as text, for SQLite to see that its partial indices hold what is asked for.
_FOUND = {
    "repair": sa.select(_FROM.c.key, _TO.c.key, _TO.c.signature, _TO.c.repair_turn)
    .join_from(
        _TO,
        _FROM,
        (_FROM.c.task_key == _TO.c.task_key)
        & (_FROM.c.run_id == _TO.c.run_id)
        & (_FROM.c.state == _TO.c.repairs)
        & (_FROM.c.key != _TO.c.key),
    )
    .where(sa.text("later.repairs <> ''"), sa.text("earlier.code <> ''")),
    "transfer": sa.select(_FROM.c.key, _TO.c.key, _TO.c.relative)
    .join_from(_TO, _FROM, _FROM.c.key == _TO.c.source)
    .where(sa.text("later.source <> ''")),
}
"""Where the rows of each table come from, its columns in order."""


def link(connection: sa.Connection, decisions: Sequence[Row]) -> None:
    """Draw the edges of these decisions to and from any others."""
    for chunk in chunks(decisions):
        repairing = [row["key"] for row in chunk if row["repairs"]]
        failed = [row["key"] for row in chunk if row["code"]]
        carried = [row["key"] for row in chunk if row["source"]]
        _draw(connection, "repair", _TO.c.key, repairing)
        _draw(connection, "repair", _FROM.c.key, failed)
        _draw(connection, "transfer", _TO.c.key, carried)
        _draw(connection, "transfer", _TO.c.source, [row["key"] for row in chunk])


def link_all(connection: sa.Connection) -> None:
    """Draw all edges that the decisions tell of."""
    for name in _FOUND:
        connection.execute(_insert(connection.dialect.name, name, None))


def astray(connection: sa.Connection) -> dict[str, tuple[int, int]]:
    """By table how many edges the decisions tell of and are missing, and the other way round."""
    found = {}
    for name, told in _FOUND.items():
        kept = sa.select(*TABLES[name].c)
        found[name] = (_less(connection, told, kept), _less(connection, kept, told))
    return found


def _less(connection: sa.Connection, these: sa.Select[Any], those: sa.Select[Any]) -> int:
    rest = these.except_(those).subquery()
    return int(connection.execute(sa.select(sa.func.count()).select_from(rest)).scalar_one())


def _draw(connection: sa.Connection, name: str, column: Any, keys: list[str]) -> None:
    if keys:
        connection.execute(_insert(connection.dialect.name, name, column), {"keys": keys})


@lru_cache
def _insert(dialect: str, name: str, column: Any) -> Any:
    """Made once: to make it costs more than SQLite takes to carry it out."""
    found = _FOUND[name]
    if column is not None:
        found = found.where(column.in_(sa.bindparam("keys", expanding=True)))
    make = sqlite.insert if dialect == "sqlite" else postgresql.insert
    edges = make(TABLES[name]).from_select([each.name for each in TABLES[name].c], found)
    return edges.on_conflict_do_nothing()
