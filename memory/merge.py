# SPDX-License-Identifier: Apache-2.0
"""Taking one memory into another: what is named by its content meets itself again.

The newest row of a task or machine holds, edges between decisions are drawn anew, and lessons are
distilled anew by who merges; so any memories make the same whole in any order and however often.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import sqlalchemy as sa

from kope_tvm.memory import links
from kope_tvm.memory.database import TABLES, Database, insert
from kope_tvm.memory.paging import CHUNK, chunks, pages
from kope_tvm.memory.rows import NODES, Row

_DECISION = TABLES["decision"]


def merge(into: Database, other: Database) -> int:
    """Take in all that another memory holds; how many experiences were new.

    Safe to break off: what was copied stays, and the next merge copies the rest.
    """
    # Before the nodes, as the other may be written meanwhile.
    last_id = _last_id(other)
    for name in NODES:
        _copy(into, name, _nodes(other, name))
    num_new = _copy(into, "decision", _decisions(other, last_id))
    with into.writing() as connection:
        links.link_all(connection)
    return num_new


def _copy(into: Database, name: str, found: Iterable[Row]) -> int:
    num_changed = 0
    for chunk in chunks(found):
        with into.writing() as connection:
            num_changed += insert(connection, name, chunk)
    return num_changed


def _last_id(database: Database) -> int:
    with database.reading() as connection:
        return int(connection.execute(sa.select(sa.func.max(_DECISION.c.id))).scalar() or 0)


def _nodes(database: Database, name: str) -> Iterator[Row]:
    with database.reading() as connection:
        found = connection.execution_options(yield_per=CHUNK).execute(sa.select(TABLES[name]))
        for row in found:
            yield row._asdict()


def _decisions(database: Database, last_id: int) -> Iterator[Row]:
    for row in pages(database, sa.select(_DECISION).where(_DECISION.c.id <= last_id)):
        del row["id"]
        yield row
