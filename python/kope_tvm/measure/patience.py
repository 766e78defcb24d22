# SPDX-License-Identifier: Apache-2.0
"""A deadline that a busy machine does not make a candidate miss.

Past its limit a process is let go on only while it wants a core and has had little of one.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

STRETCH = 4.0
"""No process gets more than this many times its limit."""


class Patience:
    """One process's limit for one stage; the clock starts now."""

    def __init__(self, pid: int, limit_secs: float) -> None:
        self._pid = pid
        self._limit_secs = limit_secs
        self._started = time.monotonic()
        self._cpu_secs = _cpu_secs(pid)

    def is_over(self) -> bool:
        """Whether the process has had its time."""
        wall_secs = time.monotonic() - self._started
        if wall_secs < self._limit_secs:
            return False
        if wall_secs >= STRETCH * self._limit_secs:
            return True
        had_secs = _cpu_secs(self._pid) - self._cpu_secs
        return had_secs >= self._limit_secs / 2 or not _wants_a_core(self._pid)


def _cpu_secs(pid: int) -> float:
    """User and system time of all threads and of the forks; 0 where the process has gone."""
    fields = _stat_fields(Path(f"/proc/{pid}/stat"))
    if not fields:
        return 0.0
    own_secs = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return own_secs + sum(map(_cpu_secs, _forks(pid)))


def _wants_a_core(pid: int) -> bool:
    """Whether any thread is runnable, or waits for a page; none of a process that has gone is."""
    states = [_stat_fields(thread / "stat")[:1] for thread in _threads(pid)]
    return ["R"] in states or ["D"] in states or any(map(_wants_a_core, _forks(pid)))


def _forks(pid: int) -> list[int]:
    """Living children of the process."""
    found: list[int] = []
    for thread in _threads(pid):
        with contextlib.suppress(OSError):
            found += map(int, (thread / "children").read_text().split())
    return found


def _threads(pid: int) -> list[Path]:
    try:
        return list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return []


def _stat_fields(stat: Path) -> list[str]:
    """Fields from the third on: the second, a name, may hold anything."""
    try:
        return stat.read_text().rpartition(")")[2].split()
    except OSError:
        return []
