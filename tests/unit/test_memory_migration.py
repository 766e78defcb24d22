# SPDX-License-Identifier: Apache-2.0
"""A file of an older kope opens, keeps what it holds under the same keys, and takes more."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from kope_tvm.memory import Experience, Store, experience_key
from kope_tvm.memory.rows import Row, decision_row, proposal_row, task_row
from kope_tvm.memory.schema import MIGRATIONS, SERIAL, VERSION_TABLE
from store_checks import CARRIED, FAILED, FIRST, MENDED

KEYS = {
    "efa7c626d8ab933979dc1414b97397b1": FIRST,  # As version 1 of the schema had it,
    "35203e89e55e46b99e273fc23dd2113d": MENDED,  # and as version 2 had it.
}
LATER = {
    1: ("repairs", "repair_turn", "signature", "source", "relative"),
    2: ("source", "relative"),
}
"""What a file of a version knows nothing of."""


def file_of_version(path: Path, version: int, *experiences: Experience) -> None:
    """What they were written as at that version."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(VERSION_TABLE)
        for number in range(version):
            for statement in MIGRATIONS[number]:
                connection.execute(statement.replace("{serial}", SERIAL["sqlite"]))
            insert(connection, "schema_version", {"version": number + 1, "applied_at": 0.0})
        insert(
            connection, "task", task_row(FIRST.task_key, FIRST.task_name, FIRST.features, FIRST.at)
        )
        for experience in experiences:
            proposal = proposal_row(experience)
            decision = decision_row(experience, proposal["key"])
            kept = {name: value for name, value in decision.items() if name not in LATER[version]}
            insert(connection, "proposal", proposal)
            insert(connection, "decision", kept)


def insert(connection: sqlite3.Connection, table: str, row: Row) -> None:
    places = ", ".join(f":{name}" for name in row)
    connection.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({places})", row)


def test_a_file_without_repairs_is_migrated(tmp_path: Path) -> None:
    path = tmp_path / "m.sqlite"
    file_of_version(path, 1, FIRST)
    with Store.open(path) as store:
        assert list(store.experiences()) == [FIRST]
        assert not store.record(FIRST)
        assert store.record_many([FAILED, MENDED]) == 2
    with Store.open(path) as store:
        assert list(store.experiences()) == [FIRST, FAILED, MENDED]
        assert store.stats().repairs == 1


def test_a_file_without_transfers_is_migrated(tmp_path: Path) -> None:
    path = tmp_path / "m.sqlite"
    file_of_version(path, 2, FAILED, FIRST, MENDED)
    with Store.open(path) as store:
        assert list(store.experiences()) == [FAILED, FIRST, MENDED]
        assert store.record_many([FAILED, FIRST, MENDED, CARRIED]) == 1
    with Store.open(path) as store:
        assert list(store.experiences()) == [FAILED, FIRST, MENDED, CARRIED]
        assert store.stats().transfers == 1


@pytest.mark.parametrize("key", KEYS)
def test_keys_are_those_of_the_version_that_knew_all_that_is_said(key: str) -> None:
    assert experience_key(KEYS[key]) == key
    assert decision_row(KEYS[key], "")["key"] == key


def test_what_is_said_later_makes_other_keys() -> None:
    relative = replace(FIRST, relative="{}")
    mended = replace(MENDED, source=CARRIED.source)
    assert len({experience_key(one) for one in (FIRST, relative, CARRIED, MENDED, mended)}) == 5
