# SPDX-License-Identifier: Apache-2.0
"""Built candidates that wait to be measured again: turns of one program need one build."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace

from kope_tvm.measure.job import Job
from kope_tvm.measure.stages import Candidate

MOST_WAITING = 6
"""The finalists of one task, the untuned function and one to spare."""


class Parked:
    """Candidates by what was asked of them; the one that waited longest makes room."""

    def __init__(self, drop: Callable[[Candidate], None]) -> None:
        """`drop` ends a candidate's process."""
        self._drop = drop
        self._waiting: dict[bytes, Candidate] = {}

    def keep(self, candidate: Candidate, job: Job) -> None:
        """Let a copy of the candidate wait, with its process."""
        key = _key(candidate, job)
        if key in self._waiting:
            self._drop(candidate)
            return
        self._waiting[key] = replace(candidate)
        if len(self._waiting) > MOST_WAITING:
            self._drop(self._waiting.pop(next(iter(self._waiting))))

    def take(self, candidate: Candidate, job: Job, *, keeps: bool) -> None:
        """Give the candidate the process that waits for it, if there is one and it lives."""
        candidate.keeps = keeps
        found = self._waiting.pop(_key(candidate, job), None) if self._waiting else None
        if found is None:
            return
        if found.worker is None or found.worker.exit_code is not None:
            self._drop(found)
            return
        candidate.worker, candidate.build_secs = found.worker, found.build_secs

    def forget(self) -> None:
        """End them all."""
        for candidate in self._waiting.values():
            self._drop(candidate)
        self._waiting.clear()


def _key(candidate: Candidate, job: Job) -> bytes:
    return hashlib.sha256(candidate.module + job.encode()).digest()
