# SPDX-License-Identifier: Apache-2.0
"""A file of an older kope opens, keeps what it holds under the same keys, and takes more."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from kope_tvm.memory import Store, experience_key
from kope_tvm.memory.rows import Row, decision_row, proposal_row, task_row
from kope_tvm.memory.schema import MIGRATIONS, SERIAL, VERSION_TABLE
from store_checks import FAILED, FIRST, MENDED

KEY_OF_FIRST = "efa7c626d8ab933979dc1414b97397b1"
"""As version 1 of the schema had it."""
LATER = ("repairs", "repair_turn", "signature")


def file_of_version_1(path: Path) -> None:
    """FIRST as it was written before repairs were."""
    proposal = proposal_row(FIRST)
    decision = decision_row(FIRST, proposal["key"])
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in MIGRATIONS[0]:
            connection.execute(statement.replace("{serial}", SERIAL["sqlite"]))
        connection.execute(VERSION_TABLE)
        insert(connection, "schema_version", {"version": 1, "applied_at": 0.0})
        insert(connection, "task", task_row(FIRST))
        insert(connection, "proposal", proposal)
        insert(connection, "decision", {k: v for k, v in decision.items() if k not in LATER})


def insert(connection: sqlite3.Connection, table: str, row: Row) -> None:
    places = ", ".join(f":{name}" for name in row)
    connection.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({places})", row)


def test_a_file_without_repairs_is_migrated(tmp_path: Path) -> None:
    path = tmp_path / "m.sqlite"
    file_of_version_1(path)
    with Store.open(path) as store:
        assert list(store.experiences()) == [FIRST]
        assert not store.record(FIRST)
        assert store.record_many([FAILED, MENDED]) == 2
    with Store.open(path) as store:
        assert list(store.experiences()) == [FIRST, FAILED, MENDED]
        assert store.stats().repairs == 1


def test_keys_are_those_of_version_1_where_nothing_is_mended() -> None:
    assert experience_key(FIRST) == KEY_OF_FIRST
    assert decision_row(FIRST, "")["key"] == KEY_OF_FIRST
    assert len({experience_key(one) for one in (FIRST, FAILED, MENDED)}) == 3
