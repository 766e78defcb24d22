# SPDX-License-Identifier: Apache-2.0
"""The forking process of a pool, started when it is needed and again when it died."""

from __future__ import annotations

import logging
import weakref

from kope_tvm.measure.job import Job
from kope_tvm.measure.parked import Parked
from kope_tvm.measure.processes import ZygoteClient, ZygoteDiedError
from kope_tvm.measure.stages import Candidate


class Workers:
    """Whoever forks the processes that build and run candidates."""

    def __init__(self, num_cores: int, log: logging.Logger) -> None:
        self.num_cores = num_cores
        """Builds at a time."""
        self.parked = Parked(self.drop)
        self._log = log
        self._zygote: ZygoteClient | None = None
        self._num_failed_starts = 0

    def living(self) -> ZygoteClient:
        """The forking process, started where there is none."""
        if self._zygote is None:
            self._zygote = ZygoteClient(self.num_cores, self._log)
            weakref.finalize(self, self._zygote.close)
        return self._zygote

    def bury(self, error: ZygoteDiedError) -> None:
        """Make way for a new one; where none starts, no candidate is at fault: `error` again."""
        self.parked.forget()
        was_ready = self._zygote is not None and self._zygote.was_ready
        self._zygote = None
        self._num_failed_starts = 0 if was_ready else self._num_failed_starts + 1
        if self._num_failed_starts > 1:
            raise error
        self._log.warning("%s; starting it again", error)

    def drop(self, candidate: Candidate) -> None:
        """End the process of a candidate that will not run."""
        if candidate.worker and self._zygote:
            self._zygote.forget(candidate.worker)
        candidate.worker = None

    def leave(self, candidate: Candidate, job: Job) -> None:
        """End its process, or keep it where the candidate is to be measured again."""
        if candidate.worker and candidate.keeps and not candidate.is_busy:
            self.parked.keep(candidate, job)
        else:
            self.drop(candidate)

    def close(self) -> None:
        """End every process."""
        self.parked.forget()
        if self._zygote:
            self._zygote.close()
            self._zygote = None
