# SPDX-License-Identifier: Apache-2.0
"""The work_dirs that fed a memory, listed in a text file beside it that outlives its damage."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from kope_tvm.errors import StorageError

JOURNAL = "experience.sqlite"
"""What a work_dir keeps its experience in, a memory of its own."""


def note(memory: Path, work_dir: Path) -> None:
    """Remember that a work_dir feeds a memory; once is enough.

    Raises StorageError where the list cannot be written.
    """
    line = str(work_dir.absolute())
    # A name that does not fit in a line of text could not be read back.
    if "\n" in line or not line.isprintable():
        return
    try:
        _append(_list_of(memory), os.fsencode(line))
    except OSError as error:
        raise StorageError(
            f"memory {memory}: {error.strerror or error}; make its folder writable or give "
            "another --memory"
        ) from error


def _append(path: Path, line: bytes) -> None:
    with path.open("a+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        known = file.read()
        if line in known.splitlines():
            return
        torn = known[-1:] not in (b"", b"\n")
        file.write(b"\n" * torn + line + b"\n")


def known(memory: Path) -> tuple[Path, ...]:
    """The work_dirs that fed a memory, first come first; they may be gone."""
    try:
        lines = _list_of(memory).read_bytes().splitlines()
    except OSError:
        return ()
    return tuple(Path(os.fsdecode(line)) for line in lines if line)


def _list_of(memory: Path) -> Path:
    return memory.with_name(memory.name + ".work_dirs")
