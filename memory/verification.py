# SPDX-License-Identifier: Apache-2.0
"""Checks a whole memory, and makes a damaged one good."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kope_tvm.errors import UsageError
from kope_tvm.memory import location, work_dirs
from kope_tvm.memory.database import DamageError, file_of
from kope_tvm.memory.faults import Fault, faults
from kope_tvm.memory.memory import Memory


@dataclass(frozen=True)
class Verified:
    """What a memory was found to be."""

    place: str
    decisions: int
    """0 where the file could not be opened."""
    faults: tuple[Fault, ...]
    notice: str = ""
    """How it was made good; empty where it was not."""

    @property
    def ok(self) -> bool:
        return not self.faults


def verified(url: str | None) -> Verified:
    """Check a memory and change nothing of it; raises UsageError where there is none."""
    path = file_of(url)
    if path is not None:
        if not path.exists():
            raise UsageError(f"memory {path}: no such file; `kope tune` makes one{_fed(path)}")
        damage = location.damage(path)
        if damage:
            return Verified(str(path), 0, (Fault("file", damage),))
    try:
        with Memory.open(url) as memory:
            return _content(memory)
    except DamageError as error:
        return Verified(str(path or url), 0, (Fault("file", str(error)),))


def rebuilt(url: str | None) -> Verified:
    """Check a memory, and make it anew where it is damaged or gone.

    Raises UsageError for a server's: it has its own ways to be restored.
    """
    path = file_of(url)
    if path is None:
        raise UsageError(
            "a server's memory is not rebuilt from here; restore it from a backup, or give "
            "`kope memory import` the work_dirs that fed it"
        )
    found = None if not path.exists() and work_dirs.known(path) else verified(url)
    if found is None or not found.ok:
        reason = found.faults[0].what if found else "the file was gone"
        location.set_aside(path, reason)
        with Memory.open(url) as memory:
            memory.learn_lessons()
            return _content(memory)
    return found


def _content(memory: Memory) -> Verified:
    found = tuple(faults(memory.store.database))
    return Verified(memory.place, memory.stats().decisions, found, memory.notice)


def _fed(path: Path) -> str:
    num_fed = len(work_dirs.known(path))
    if not num_fed:
        return ""
    return (
        f", and `kope memory verify --rebuild` makes it anew of the {num_fed} work_dirs that fed it"
    )
