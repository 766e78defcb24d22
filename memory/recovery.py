# SPDX-License-Identifier: Apache-2.0
"""Making a damaged memory good: what can still be read of it, and what its work_dirs hold."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from kope_tvm.memory import work_dirs
from kope_tvm.memory.database import insert
from kope_tvm.memory.experience import Experience
from kope_tvm.memory.location import left_aside
from kope_tvm.memory.paging import chunks
from kope_tvm.memory.salvage import experiences_in, machines_in

if TYPE_CHECKING:
    from kope_tvm.memory.store import Store


def recover(store: Store) -> str:
    """Take in what was set aside and not made good yet, and say what became of it.

    Empty where there is nothing of the kind. A kill on the way is made good at the next call.
    """
    path = store.database.path
    if path is None or not left_aside(path).exists():
        return ""
    lines = left_aside(path).read_text("utf-8").splitlines()
    said = [_salvaged(store, path, *line.split("\t", 1)) for line in lines]
    said.append(_reread(store, path))
    left_aside(path).unlink(missing_ok=True)
    return "; ".join(said)


def _salvaged(store: Store, path: Path, name: str, reason: str) -> str:
    said = f"memory {path} was damaged: {reason}"
    aside = path.with_name(name)
    if not aside.exists():
        return said
    with store.database.writing() as connection:
        insert(connection, "machine", machines_in(aside))
    num_read = _record(store, experiences_in(aside))
    return f"{said}; kept as {name}, of which {num_read} experiences were read"


def _reread(store: Store, path: Path) -> str:
    """Take in the journals of the work_dirs that fed the memory."""
    folders = work_dirs.known(path)
    if not folders:
        return "a new one was started"
    journals = [folder / work_dirs.JOURNAL for folder in folders]
    num_read = sum(_record(store, experiences_in(each)) for each in journals if each.is_file())
    gone = [str(journal.parent) for journal in journals if not journal.is_file()]
    said = f"{num_read} more were read from {len(folders) - len(gone)} of {len(folders)} work_dirs"
    return f"{said}; no journal in {', '.join(gone)}" if gone else said


def _record(store: Store, experiences: Iterable[Experience]) -> int:
    return sum(store.record_many(chunk) for chunk in chunks(experiences))
