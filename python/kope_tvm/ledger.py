# SPDX-License-Identifier: Apache-2.0
"""What a work_dir holds: every outcome in a journal, every right one in MetaSchedule's JSON.

The experience is written first, then a plan or a script as a file, then MetaSchedule's record, then
the user's memory: a kill between two of them is made good when the work_dir is opened again.

A rewrite is a record of its own workload: under the original's its trace would not replay, and
MetaSchedule, which replays every record as it loads, could read none of them.

A record holds the median as often as its function was timed: MetaSchedule goes by the mean, and
must take for the best what was proved to be. An outcome that the finals refuted is followed by
another of the same state: the last word counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from kope_tvm.candidate import Candidate
from kope_tvm.errors import StorageError, WorkDirError
from kope_tvm.finals import FAILED_SECS
from kope_tvm.lock import locked, uninterrupted
from kope_tvm.memory.experience import Experience, Recalled
from kope_tvm.memory.memory import Memory
from kope_tvm.memory.store import Store
from kope_tvm.memory.work_dirs import JOURNAL
from kope_tvm.outcome import Measurement
from kope_tvm.performance import Comparison
from kope_tvm.records import RecordKey, Records, cut_torn_line, trace_key
from kope_tvm.settled import Settled
from kope_tvm.target import TargetSpec
from kope_tvm.task import Task
from kope_tvm.workbench import trace_text
from kope_tvm.written import Written

_LOST = "it no longer applies"
_STOPPED = Measurement(stage="check", code="E_REFUTED", error="by a run that was stopped then")


class Ledger:
    """The open work_dir of one tuning run, and the memory it shares with others."""

    def __init__(self, work_dir: Path, target: TargetSpec, memory: Memory) -> None:
        """Raises WorkDirError where it is another target's, in use, or not writable."""
        self.work_dir = work_dir
        self.notices: list[str] = [memory.notice] if memory.notice else []
        self._target = target
        self._memory = memory
        self._written = Written(work_dir)
        self._keys: dict[tuple[str, str], RecordKey] = {}
        """Of plans and rewrites, by task and state: only their trace, made anew, tells."""
        self._lost: set[tuple[str, str]] = set()
        self._mended: set[str] = set()
        """Tasks of which a record was missing, and the finals' times with it."""
        self._lock = locked(work_dir)
        try:
            memory.note_work_dir(work_dir)
            self._open()
        except BaseException:
            self._lock.close()
            raise

    def _open(self) -> None:
        with self._kept():
            self.notices += cut_torn_line(self.work_dir)
        self._settled = Settled(self.work_dir)
        self._journal = Store.open(str(self.work_dir / JOURNAL))
        if self._journal.notice:
            self.notices.append(self._journal.notice)
        try:
            self._refuse_another_target()
            self._records = Records(self.work_dir, self._target)
        except BaseException:
            self._journal.close()
            raise

    def past(self, task: Task) -> list[Experience]:
        """What this work_dir knows of a task, oldest first, with the finals' times.

        Of what was refuted later, that.
        """
        times = self._records.times()
        known = (self._as_it_stands(one) for one in _last_words(self._journalled(task)))
        return [self._with_times(one, times) for one in known]

    def _as_it_stands(self, experience: Experience) -> Experience:
        """The experience, refused where it no longer applies: it must not be the one to beat."""
        if (experience.task_key, experience.state) not in self._lost:
            return experience
        return replace(experience, accepted=False, run_secs=(), code="E_REPLAY", reason=_LOST)

    def is_settled(self, task: Task, untouched: Any) -> bool:
        """Whether the task's finals were held on all that is known of it, and are on record.

        `untouched` is the untuned function's trace.
        """
        is_whole = task.key not in self._mended and (
            self.comparison(task) is None or _key(task, untouched) in self._records.times()
        )
        return is_whole and self._settled.holds(task.key, len(self._journalled(task)))

    def comparison(self, task: Task) -> Comparison | None:
        """How the finals ended: the fastest beside the untuned function."""
        return self._settled.comparison(task.key)

    def _journalled(self, task: Task) -> list[Experience]:
        return sorted(self._journal.experiences(task_key=task.key), key=lambda one: one.at)

    def _with_times(
        self, experience: Experience, times: Mapping[RecordKey, tuple[float, ...]]
    ) -> Experience:
        """The experience with the times on record where the finals added to them."""
        key = self._key_of(experience) if experience.run_secs else None
        on_record = times.get(key, ()) if key else ()
        if len(on_record) <= len(experience.run_secs):
            return experience
        return replace(experience, run_secs=on_record)

    def _key_of(self, experience: Experience) -> RecordKey | None:
        """Where an experience is on record; None for a plan or rewrite not yet applied here."""
        if experience.lane == "decisions":
            return RecordKey(experience.task_key, trace_key(experience.proposal))
        return self._keys.get((experience.task_key, experience.state))

    def recall(self, task: Task) -> tuple[Recalled, ...]:
        """What the memory holds for a task."""
        return self._memory.recall(task)

    def record(self, experience: Experience, candidate: Candidate | None) -> None:
        """Keep one outcome; a kill after the return does not lose it.

        Raises StorageError where the disk is full; what was recorded before is kept.
        """
        with uninterrupted(), self._kept():
            self._journal.record(experience)
            if candidate is not None and experience.run_secs:
                self._keep(experience, candidate, known=())
            self._memory.record(experience)

    def _keep(
        self, experience: Experience, candidate: Candidate, known: Collection[RecordKey]
    ) -> None:
        """Put a right candidate where stock TVM, and `compile` for the other lanes, look for it."""
        trace, task_key = candidate.sch.trace, experience.task_key
        workload = (
            self._records.open_workload(candidate.base) if candidate.base is not None else task_key
        )
        if experience.lane != "decisions":  # Those were replayed from their trace.
            if not self._records.replays(workload, trace, candidate.state):
                self._say_lost(experience, "its trace, read back, makes another program")
                return
            key = RecordKey(workload, trace_key(trace_text(trace)))
            self._keys[task_key, candidate.state] = key
            self._written.keep(task_key, key, candidate.proposal)
            if key in known:
                return
        self._records.commit(workload, trace, _levelled(experience.run_secs))

    def _say_lost(self, experience: Experience, why: str) -> None:
        self.notices.append(
            f"{experience.task_name}: a {experience.lane} of {median(experience.run_secs):.3g} s "
            f"is not put on record: {why}"
        )

    def reconcile(self, task: Task, replay: Callable[[Experience], Candidate | None]) -> None:
        """Write what a killed run had journalled but not yet put into the other places."""
        known = self._records.times()
        journalled = self._journalled(task)
        with self._kept():
            self._memory.record_many(journalled)
            for experience in _last_words(journalled):
                if not experience.run_secs:
                    continue
                if self._key_of(experience) not in known:
                    self._keep_again(experience, replay(experience), known)
                key = self._key_of(experience)
                if key and min(known.get(key, ()), default=0.0) >= FAILED_SECS:
                    self._take_back(experience, _STOPPED)

    def _keep_again(
        self, experience: Experience, candidate: Candidate | None, known: Collection[RecordKey]
    ) -> None:
        if candidate is None:
            self._lost.add((experience.task_key, experience.state))
            self._say_lost(experience, _LOST)
        else:
            self._keep(experience, candidate, known)
            if self._key_of(experience) not in known:
                self._mended.add(experience.task_key)

    def refute(self, task: Task, state: str, failed: Measurement) -> None:
        """Take back that a state was right: first where others look for the best.

        A kill before the journal knows of it is made good when the work_dir is opened again.
        """
        for experience in _last_words(self._journalled(task)):
            if experience.state == state and experience.run_secs:
                with uninterrupted(), self._kept():
                    key = self._key_of(experience)
                    self._records.settle({key: (FAILED_SECS,)} if key else {})
                    self._take_back(experience, failed)

    def _take_back(self, experience: Experience, failed: Measurement) -> None:
        """Put its failure on record, in the journal and in the memory."""
        word = replace(
            experience,
            code=failed.code,
            reason=failed.error,
            suspicious=failed.suspicious,
            run_secs=(),
            noise=0.0,
            tokens=0,
            repairs="",
            repair_turn=0,
            signature="",
            at=max(time.time(), experience.at),
        )
        self._journal.record(word)
        self._memory.record(word)

    def settle(
        self, task: Task, times: Mapping[str, tuple[float, ...]], comparison: Comparison | None
    ) -> None:
        """Put the finals' times, by the state measured, into MetaSchedule's records.

        `comparison` is the fastest beside the untuned function; None where there is none.
        """
        journalled = self._journalled(task)
        right = [one for one in _last_words(journalled) if one.run_secs and one.state in times]
        keys = ((self._key_of(one), _levelled(times[one.state])) for one in right)
        with self._kept():
            self._records.settle({key: run_secs for key, run_secs in keys if key})
            self._settled.note(task.key, len(journalled), comparison)
        self._mended.discard(task.key)

    def keep_baseline(self, task: Task, trace: Any, secs: float) -> None:
        """Put the untuned function among MetaSchedule's records, or its time right there."""
        key = _key(task, trace)
        with self._kept():
            if key in self._records.times():
                self._records.settle({key: (secs,)})
            else:
                self._records.commit(task.key, trace, (secs,))

    def open_workload(self, mod: Any) -> None:
        """Make a task's untuned module the workload under which its records are kept."""
        with self._kept():
            self._records.open_workload(mod)

    def close(self) -> None:
        """Release the work_dir."""
        self._journal.close()
        self._lock.close()

    @contextmanager
    def _kept(self) -> Iterator[None]:
        """Say of a write that failed what became of the ones before it."""
        try:
            yield
        except OSError as error:
            raise self._failed(f"{self.work_dir}: {error.strerror or error}") from error
        except StorageError as error:
            raise self._failed(str(error).partition(";")[0]) from error

    def _failed(self, what: str) -> StorageError:
        return StorageError(
            f"{what}; everything measured before is kept in {self.work_dir}; "
            "free some space and give the same command again"
        )

    def _refuse_another_target(self) -> None:
        for experience in self._journal.experiences():
            if experience.machine_key != self._target.key:
                raise WorkDirError(
                    f"{self.work_dir} holds records of {experience.machine_key!r}; "
                    f"given target {self._target.name!r} is {self._target.key!r}; "
                    "use another --work-dir, or the target it was made with"
                )
            return


def _key(task: Task, trace: Any) -> RecordKey:
    return RecordKey(task.key, trace_key(trace_text(trace)))


def _last_words(experiences: Sequence[Experience]) -> list[Experience]:
    """Of what went to the device more than once, the last outcome; they come oldest first."""
    last = {one.state: one for one in experiences if one.accepted}
    return [one for one in experiences if not one.accepted or last[one.state] is one]


def _levelled(run_secs: Sequence[float]) -> tuple[float, ...]:
    """The median as often as there are times."""
    return (median(run_secs),) * len(run_secs)
