# SPDX-License-Identifier: Apache-2.0
"""Many rows in pages: a slow reader holds neither a transaction nor SQLite's log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar

import sqlalchemy as sa

from kope_tvm.memory.database import TABLES, Database
from kope_tvm.memory.rows import Row

CHUNK = 500
"""Rows a statement, below SQLite's limit on variables."""
_ID = TABLES["decision"].c.id

_Item = TypeVar("_Item")


def pages(database: Database, query: sa.Select[Any]) -> Iterator[Row]:
    """The rows of a query over decisions, in the order in which they came."""
    after = 0
    while True:
        page = query.where(after < _ID).order_by(_ID).limit(CHUNK)
        with database.reading() as connection:
            found = [row._asdict() for row in connection.execute(page)]
        after = found[-1]["id"] if found else after
        yield from found
        if len(found) < CHUNK:
            return


def chunks(items: Iterable[_Item]) -> Iterator[list[_Item]]:
    """Lists of at most `CHUNK` items."""
    iterator = iter(items)
    while chunk := list(islice(iterator, CHUNK)):
        yield chunk
