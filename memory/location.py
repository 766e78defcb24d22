# SPDX-License-Identifier: Apache-2.0
"""Where the memory file is, whether it is sound, and setting a damaged one aside."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import platformdirs

from kope_tvm.errors import StorageError, UsageError

_MAGIC = b"SQLite format 3\0"
_SUFFIXES = frozenset({".sqlite", ".sqlite3", ".db"})
_FULL_CHECK_BYTES = 32 << 20
"""Above it a whole check would cost more than opening may; damage then shows where it is read."""


def default_path() -> Path:
    """`memory.sqlite` in `$KOPE_HOME`, or else in the user's data folder."""
    home = os.environ.get("KOPE_HOME")
    folder = Path(home).expanduser() if home else platformdirs.user_data_path("kope-tvm", False)
    return folder / "memory.sqlite"


def prepare(path: Path, busy_secs: float) -> str:
    """Make the folder, set a damaged file aside, and say so; empty where nothing was wrong."""
    if path.is_dir():
        raise UsageError(f"memory {path} is a folder; give a file, e.g. {path / 'memory.sqlite'}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not damage(path, busy_secs):
            return ""
        with _folder_lock(path.parent):
            return _set_aside(path, damage(path, busy_secs))
    except OSError as error:
        raise StorageError(
            f"memory {path}: {error.strerror or error}; make its folder writable or give "
            "another place with --memory or KOPE_HOME"
        ) from error


def damage(path: Path, busy_secs: float = 30.0) -> str:
    """What is wrong with the file, in words; empty for a sound, an empty or a missing one."""
    if not path.exists() or path.stat().st_size == 0:
        return ""
    with path.open("rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            return _not_sqlite(path)
    try:
        with closing(sqlite3.connect(path, timeout=busy_secs)) as connection:
            return _check(connection, path.stat().st_size)
    except sqlite3.OperationalError:
        return ""  # Locked or unreadable is not damaged; opening will say so.
    except sqlite3.DatabaseError as error:
        return str(error)


def _not_sqlite(path: Path) -> str:
    if path.suffix not in _SUFFIXES:  # Most likely a slip: never move somebody's model away.
        raise UsageError(
            f"memory {path} is not an SQLite file; give a new or existing "
            f"{', '.join(sorted(_SUFFIXES))} file or a postgresql:// URL"
        )
    return "file is not a database"


def _check(connection: sqlite3.Connection, num_bytes: int) -> str:
    if num_bytes > _FULL_CHECK_BYTES:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        return ""
    answer = str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
    return "" if answer == "ok" else answer


def _set_aside(path: Path, reason: str) -> str:
    if not reason:  # Another process was quicker.
        return ""
    aside = path.with_name(f"{path.name}.damaged-{time.strftime('%Y%m%dT%H%M%S')}-{os.getpid()}")
    # The log first: a fresh file next to an old log would have SQLite delete the log.
    for suffix in ("-wal", "-shm", ""):
        old = path.with_name(path.name + suffix)
        if old.exists():
            old.rename(aside.with_name(aside.name + suffix))
    return f"memory {path} was damaged ({reason}); kept as {aside.name}, and a new one started"


@contextmanager
def _folder_lock(folder: Path) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
