# SPDX-License-Identifier: Apache-2.0
"""What a work_dir holds: every outcome in a journal, every right one in MetaSchedule's JSON.

The experience is written first, then MetaSchedule's record, then the user's memory: a kill between
two of them is made good when the work_dir is opened again.
"""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TextIO

from kope_tvm.candidate import Candidate
from kope_tvm.errors import StorageError, WorkDirError
from kope_tvm.memory.experience import Experience, Recalled
from kope_tvm.memory.memory import Memory
from kope_tvm.memory.store import Store
from kope_tvm.records import Records, cut_torn_line
from kope_tvm.target import TargetSpec
from kope_tvm.task import Task

_JOURNAL = "experience.sqlite"


class Ledger:
    """The open work_dir of one tuning run, and the memory it shares with others."""

    def __init__(self, work_dir: Path, target: TargetSpec, memory: Memory) -> None:
        """Raises WorkDirError where it is another target's, in use, or not writable."""
        self.work_dir = work_dir
        self.notices: list[str] = [memory.notice] if memory.notice else []
        self._target = target
        self._memory = memory
        self._lock = _locked(work_dir)
        self.notices += cut_torn_line(work_dir)
        self._journal = Store.open(str(work_dir / _JOURNAL))
        if self._journal.notice:
            self.notices.append(self._journal.notice)
        self._records = Records(work_dir, target)
        self._refuse_another_target()

    def past(self, task: Task) -> list[Experience]:
        """What this work_dir knows of a task, oldest first."""
        return sorted(self._journal.experiences(task_key=task.key), key=lambda one: one.at)

    def recall(self, task: Task) -> tuple[Recalled, ...]:
        """What the memory holds for a task."""
        return self._memory.recall(task)

    def record(self, experience: Experience, candidate: Candidate | None) -> None:
        """Keep one outcome; durable on return.

        Raises StorageError where the disk is full; what was recorded before is kept.
        """
        try:
            task_key = experience.task_key
            self._journal.record(experience)
            if candidate is not None and experience.run_secs:
                self._records.commit(task_key, candidate.sch.trace, experience.run_secs)
            self._memory.record(experience)
        except OSError as error:
            raise StorageError(
                f"{self.work_dir}: {error.strerror or error}; "
                "everything measured before is kept; "
                "free some space and give the same command again"
            ) from error

    def reconcile(self, task: Task, replay: Callable[[Experience], Candidate | None]) -> None:
        """Write what a killed run had journalled but not yet put into the other two."""
        known = self._records.states(task)
        for experience in self.past(task):
            self._memory.record(experience)
            if experience.run_secs and experience.state not in known:
                candidate = replay(experience)
                if candidate is not None:
                    self._records.commit(task.key, candidate.sch.trace, experience.run_secs)

    def settle(self, times: Mapping[tuple[str, str], tuple[float, ...]]) -> None:
        """Put the finals' times, by task key and trace, into MetaSchedule's records."""
        if times:
            self._records.settle(times)

    def open_workload(self, mod: Any, task: Task) -> None:
        """Make the task's untuned module the workload under which its records are kept."""
        self._records.open_workload(mod, task)

    def close(self) -> None:
        """Release the work_dir."""
        self._journal.close()
        self._lock.close()

    def _refuse_another_target(self) -> None:
        for experience in self._journal.experiences():
            if experience.machine_key != self._target.key:
                self.close()
                raise WorkDirError(
                    f"{self.work_dir} holds records of {experience.machine_key!r}; "
                    f"given target {self._target.name!r} is {self._target.key!r}; "
                    "use another --work-dir, or the target it was made with"
                )
            return


def _locked(work_dir: Path) -> TextIO:
    try:
        work_dir.mkdir(parents=True, exist_ok=True)
        handle = (work_dir / ".lock").open("a")
    except OSError as error:
        raise WorkDirError(
            f"work_dir {str(work_dir)!r}: {error.strerror}; expected a folder that can be written; "
            "give another --work-dir"
        ) from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        handle.close()
        raise WorkDirError(
            f"work_dir {str(work_dir)!r} is in use by another tuning; "
            "wait for it, or give another --work-dir"
        ) from None
    return handle
