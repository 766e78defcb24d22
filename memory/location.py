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
from kope_tvm.memory import work_dirs

_MAGIC = b"SQLite format 3\0"
_SUFFIXES = frozenset({".sqlite", ".sqlite3", ".db"})
_QUICK_BYTES = 32 << 20
"""Above it a whole check would cost more than opening may; damage then shows where it is read."""
_EMPTY = "the file is empty, though work_dirs fed it"


def default_path() -> Path:
    """`memory.sqlite` in `$KOPE_HOME`, or else in the user's data folder."""
    home = os.environ.get("KOPE_HOME")
    folder = Path(home).expanduser() if home else platformdirs.user_data_path("kope-tvm", False)
    return folder / "memory.sqlite"


def prepare(path: Path, busy_secs: float) -> None:
    """Make the folder, and set a damaged file aside for `recovery` to make good."""
    if path.is_dir():
        raise UsageError(f"memory {path} is a folder; give a file, e.g. {path / 'memory.sqlite'}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if _looks_damaged(path, busy_secs):
            with _folder_lock(path.parent):
                if reason := _looks_damaged(path, busy_secs):  # Another process may be quicker.
                    set_aside(path, reason)
    except OSError as error:
        raise StorageError(
            f"memory {path}: {error.strerror or error}; make its folder writable or give "
            "another place with --memory or KOPE_HOME"
        ) from error


def _looks_damaged(path: Path, busy_secs: float) -> str:
    is_large = path.exists() and path.stat().st_size > _QUICK_BYTES
    return damage(path, busy_secs, "schema_version" if is_large else "quick_check(1)")


def damage(path: Path, busy_secs: float = 30.0, pragma: str = "integrity_check(1)") -> str:
    """What SQLite's own check finds wrong with the file; empty for a sound or a missing one."""
    if not path.exists():
        return ""
    if path.stat().st_size == 0:
        return _EMPTY if work_dirs.known(path) else ""
    with path.open("rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            return _not_sqlite(path)
    try:
        with closing(sqlite3.connect(path, timeout=busy_secs)) as connection:
            answer = str(connection.execute(f"PRAGMA {pragma}").fetchone()[0])
    except sqlite3.OperationalError:
        return ""  # Locked or unreadable is not damaged; opening will say so.
    except sqlite3.DatabaseError as error:
        return str(error)
    except UnicodeDecodeError as error:  # SQLite quotes what it stumbles over.
        return error.object.decode("utf-8", "replace")
    return "" if answer == "ok" or answer.isdecimal() else answer


def _not_sqlite(path: Path) -> str:
    if path.suffix not in _SUFFIXES:  # Most likely a slip: never move somebody's model away.
        raise UsageError(
            f"memory {path} is not an SQLite file; give a new or existing "
            f"{', '.join(sorted(_SUFFIXES))} file or a postgresql:// URL"
        )
    return "file is not a database"


def set_aside(path: Path, reason: str) -> None:
    """Move a file out of the way, and leave word of it beside until all is made good."""
    aside = path.with_name(f"{path.name}.damaged-{time.strftime('%Y%m%dT%H%M%S')}-{os.getpid()}")
    with left_aside(path).open("a", encoding="utf-8") as file:
        file.write(f"{aside.name}\t{' '.join(reason.split())}\n")
    # The log first: a fresh file next to an old log would have SQLite delete the log.
    for suffix in ("-wal", "-shm", ""):
        old = path.with_name(path.name + suffix)
        if old.exists():
            old.rename(aside.with_name(aside.name + suffix))


def left_aside(path: Path) -> Path:
    """Lists the files that were set aside and not made good yet: name, tab, what was wrong."""
    return path.with_name(path.name + ".rebuild")


@contextmanager
def _folder_lock(folder: Path) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
