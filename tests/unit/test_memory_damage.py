# SPDX-License-Identifier: Apache-2.0
"""What cannot be a memory is named and left alone; what was one is set aside, never deleted."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

import store_checks
from kope_tvm.errors import StorageError, UsageError
from kope_tvm.memory import Experience, Store

FIRST: Experience = store_checks.FIRST


def nth(number: int) -> Experience:
    return replace(FIRST, state=f"s{number}", proposal=f"p{number}", order=number)


@pytest.mark.parametrize("first_bytes", [b"not a database", b"SQLite format 3\0" + b"\xff" * 4096])
def test_a_damaged_file_is_set_aside_and_kept(tmp_path: Path, first_bytes: bytes) -> None:
    path = tmp_path / "m.sqlite"
    path.write_bytes(first_bytes)
    with Store.open(path) as store:
        assert store.record(FIRST)
        (aside,) = tmp_path.glob("m.sqlite.damaged-*")
        assert aside.read_bytes() == first_bytes
        assert aside.name in store.notice
    with Store.open(path) as store:
        assert store.notice == ""
        assert list(store.experiences()) == [FIRST]


def test_a_file_with_overwritten_pages_is_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "m.sqlite"
    with Store.open(path) as store:
        store.record_many(nth(i) for i in range(200))
    data = path.read_bytes()
    path.write_bytes(data[:4096] + b"\x55" * (len(data) - 4096))
    with Store.open(path) as store:
        assert "damaged" in store.notice
        assert store.stats().decisions == 0


def test_a_file_that_is_no_memory_by_its_name_is_left_alone(tmp_path: Path) -> None:
    model = tmp_path / "model.onnx"
    model.write_bytes(b"a model")
    with pytest.raises(UsageError, match=r"model\.onnx is not an SQLite file"):
        Store.open(model)
    assert model.read_bytes() == b"a model"


def test_another_programs_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "bookmarks.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE bookmark (url TEXT)")
    with pytest.raises(UsageError, match="tables of something else"):
        Store.open(path)


def test_a_newer_schema_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "m.sqlite"
    Store.open(path).close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("INSERT INTO schema_version VALUES (99, 0)")
    with pytest.raises(UsageError, match="schema version 99"):
        Store.open(path)


def test_a_locked_file_is_named_after_waiting(tmp_path: Path) -> None:
    path = tmp_path / "m.sqlite"
    with Store.open(path, busy_secs=0.1) as store, closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StorageError, match=r"m\.sqlite: .*locked.* 0\.1 s"):
            store.record(FIRST)
        other.rollback()
        assert store.record(FIRST)


def test_a_full_disk_keeps_what_was_recorded_before(tmp_path: Path) -> None:
    with Store.open(tmp_path / "m.sqlite") as store:
        store.record(FIRST)
        with store.database.reading() as connection:  # The pool's one connection keeps it.
            connection.exec_driver_sql("PRAGMA max_page_count=1")
        with pytest.raises(StorageError, match="full; free some space"):
            store.record(replace(FIRST, proposal="x" * 10_000_000))
        assert list(store.experiences()) == [FIRST]


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("mongodb://somewhere/db", "unknown memory URL scheme 'mongodb'; known: sqlite"),
        ("mysql://somewhere/db", "unknown memory URL scheme 'mysql'"),
        ("://", "memory URL cannot be read"),
    ],
)
def test_a_url_that_means_nothing_is_a_usage_error(url: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Store.open(url)


def test_a_folder_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a folder; give a file"):
        Store.open(tmp_path)


def test_the_default_file_is_under_kope_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KOPE_HOME", str(tmp_path / "home"))
    with Store.open() as store:
        assert store.place == str(tmp_path / "home" / "memory.sqlite")
    assert (tmp_path / "home" / "memory.sqlite").exists()
