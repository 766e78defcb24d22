# SPDX-License-Identifier: Apache-2.0
"""Reads a memory file that may be damaged or of an older kope, without changing it.

An experience is taken where all that its key was made of is as it was; what cannot be read is left.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from kope_tvm.memory import rows
from kope_tvm.memory.experience import Experience

_WHOLE = """SELECT decision.*, proposal.text, task.features
    FROM decision JOIN proposal ON proposal.key = proposal_key JOIN task ON task.key = task_key
    WHERE id BETWEEN ? AND ? ORDER BY id"""
_LAST_ID = ("SELECT max(id) FROM decision", "SELECT max(seq) FROM sqlite_sequence")
_MOST_CUT = 100
"""Times its size that a file may have been; a header that tells more tells nothing."""
_STRIDE = 5000
"""Decisions read at once; where that fails, the half of it is tried."""
_NOT_AS_WRITTEN = (AttributeError, KeyError, OverflowError, TypeError, ValueError)


def experiences_in(path: Path) -> Iterator[Experience]:
    """The experiences of a file, as far as they can be read, in the order in which they came."""
    with _whole(path) as whole, closing(_reading(whole)) as connection:
        if not _can_be_asked(connection):
            return
        last = min(_last_id(connection), whole.stat().st_size)
        for first in range(1, last + 1, _STRIDE):
            for row in _between(connection, first, first + _STRIDE - 1):
                experience = _sound(row)
                if experience is not None:
                    yield experience


def machines_in(path: Path) -> list[rows.Row]:
    """The machine nodes of a file, as far as they can be read."""
    with _whole(path) as whole, closing(_reading(whole)) as connection:
        try:
            found = connection.execute("SELECT * FROM machine").fetchall()
            return [_machine(row) for row in found]
        except (sqlite3.Error, *_NOT_AS_WRITTEN):
            return []


@contextmanager
def _whole(path: Path) -> Iterator[Path]:
    """The file, or where its end was cut off a copy with zeros there: SQLite reads none shorter."""
    size = _told_size(path)
    if not path.stat().st_size < size < _MOST_CUT * path.stat().st_size:
        yield path
        return
    with TemporaryDirectory(prefix="kope-salvage-") as folder:
        copy = Path(shutil.copy(path, folder))
        os.truncate(copy, size)
        yield copy


def _told_size(path: Path) -> int:
    """What SQLite's header says; see "Database Header" in its file format."""
    with path.open("rb") as file:
        header = file.read(100)
    page_bytes, num_pages = int.from_bytes(header[16:18], "big"), header[28:32]
    return (65536 if page_bytes == 1 else page_bytes) * int.from_bytes(num_pages, "big")


def _reading(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    connection.row_factory = sqlite3.Row
    connection.text_factory = lambda text: text.decode("utf-8", "replace")
    return connection


def _can_be_asked(connection: sqlite3.Connection) -> bool:
    """Whether tables and columns are there: without them, no row could be read either."""
    try:
        connection.execute(_WHOLE, (0, 0)).fetchall()
    except (sqlite3.Error, UnicodeDecodeError):
        return False
    return True


def _last_id(connection: sqlite3.Connection) -> int:
    for query in _LAST_ID:
        try:
            return int(connection.execute(query).fetchone()[0] or 0)
        except (sqlite3.Error, *_NOT_AS_WRITTEN):
            continue
    return 0


def _between(connection: sqlite3.Connection, first: int, last: int) -> Iterator[sqlite3.Row]:
    try:
        found = connection.execute(_WHOLE, (first, last)).fetchall()
    except (sqlite3.Error, UnicodeDecodeError):
        if first < last:
            middle = (first + last) // 2
            yield from _between(connection, first, middle)
            yield from _between(connection, middle + 1, last)
        return
    yield from found


def _sound(row: sqlite3.Row) -> Experience | None:
    values: dict[str, Any] = {**rows.LATER_DEFAULTS, **dict(row)}
    try:
        experience = rows.clean(rows.experience_from(values))
        return experience if rows.experience_key(experience) == row["key"] else None
    except _NOT_AS_WRITTEN:
        return None


def _machine(row: sqlite3.Row) -> rows.Row:
    machine = rows.Machine(row["key"], rows.facts_from(row["facts"]))
    return rows.machine_row(machine, row["name"], float(row["seen_at"]))
