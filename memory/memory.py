# SPDX-License-Identifier: Apache-2.0
"""The memory as the rest of kope sees it: record what happened, recall what may help."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from kope_tvm.errors import StorageError
from kope_tvm.memory.experience import Experience, Recalled
from kope_tvm.memory.index import ExperienceIndex
from kope_tvm.memory.lessons import Lesson
from kope_tvm.memory.prune import KEEP, Pruned, prune
from kope_tvm.memory.recall import recall
from kope_tvm.memory.repairs import Fix
from kope_tvm.memory.stats import Stats
from kope_tvm.memory.store import Store
from kope_tvm.memory.transitions import Transition, transitions
from kope_tvm.target import TargetSpec
from kope_tvm.task import Task

if TYPE_CHECKING:
    from kope_tvm.memory.graph import ExperienceGraph

log = logging.getLogger(__name__)


class Memory:
    """One store, and an index over it that is filled at the first recall."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._index = ExperienceIndex(store)
        self._lock = Lock()
        self._has_news = False
        """Whether lessons may have changed through this memory."""

    @classmethod
    def open(cls, url: str | Path | None = None, *, busy_secs: float = 30.0) -> Memory:
        """Open or create a memory, as `Store.open` does."""
        return cls(Store.open(url, busy_secs=busy_secs))

    @property
    def notice(self) -> str:
        """What the user should hear about opening it; empty where all was well."""
        return self.store.notice

    @property
    def place(self) -> str:
        """The file or URL, without a password."""
        return self.store.place

    def record(self, experience: Experience) -> bool:
        """Keep one experience, on disk when this returns; False where it was known already."""
        return self.record_many((experience,)) == 1

    def record_many(self, experiences: Iterable[Experience]) -> int:
        """Keep them all or none; how many were new."""
        num_new = self.store.record_many(experiences)
        self._has_news |= num_new > 0
        return num_new

    def note_machine(self, spec: TargetSpec) -> None:
        """Keep the facts of a machine, that recall may compare machines by them."""
        self.store.note_machine(spec)

    def note_work_dir(self, work_dir: Path) -> None:
        """Remember that a work_dir feeds this memory, that a damaged one be rebuilt from it."""
        self.store.note_work_dir(work_dir)

    def recall(self, task: Task, limit: int = 8) -> tuple[Recalled, ...]:
        """What may help with a task, by this process's experience and everybody's."""
        with self._lock:
            return recall(self._index, task, limit=limit)

    def transitions(self, task: Task, limit: int = 8) -> tuple[Transition, ...]:
        """What single changes did to this task and to similar ones, the most telling first."""
        with self._lock:
            return transitions(self._index, task, limit=limit)

    def lessons(self, task: Task) -> tuple[str, ...]:
        """The lessons that hold for a task's kind on its machine, or on the nearest known one.

        They follow from all that is recorded at the time of the call.
        """
        with self._lock:
            self._index.refresh()
            return self._index.lessons(task)

    def fixes(self, signature: str, op_class: str, limit: int = 3) -> tuple[Fix, ...]:
        """What was done about a failure before: what worked first, then a warning."""
        return self.store.fixes(signature, op_class, limit)

    def graph(self, task_key: str) -> ExperienceGraph:
        """The decisions of one task as a graph."""
        from kope_tvm.memory.graph import ExperienceGraph  # networkx is slow to import

        return ExperienceGraph.from_store(self.store, task_key=task_key)

    def learn_lessons(self) -> tuple[Lesson, ...]:
        """Distil the lessons from all experience, and keep them in the store with their evidence.

        What was recorded through this memory is distilled when it closes; `lessons` needs neither.
        """
        with self._lock:
            self._index.refresh()
            lessons = self._index.all_lessons()
        self.store.note_lessons(lessons)
        self._has_news = False
        return lessons

    def stats(self) -> Stats:
        """How much it holds."""
        return self.store.stats()

    def merge(self, other: Memory) -> int:
        """Take in all that another memory holds; how many experiences were new."""
        num_new = self.store.merge(other.store)
        self.learn_lessons()
        return num_new

    def prune(
        self, keep: int = KEEP, older_than_secs: float = 0.0, *, dry_run: bool = False
    ) -> Pruned:
        """Forget what is worth least until about `keep` experiences are left, see `prune`.

        What is younger than `older_than_secs` stays. A merge with a memory that has it still, or
        resuming in a work_dir that it came from, brings back what was forgotten.
        """
        now = time.time()
        with self._lock:
            database = self.store.database
            pruned = prune(database, keep, now - older_than_secs, now, apply=not dry_run)
            self._index = ExperienceIndex(self.store)
        if not dry_run:
            self.learn_lessons()
        return pruned

    def close(self) -> None:
        """Keep the lessons of what was recorded, and let go of the connections."""
        if self._has_news:
            try:
                self.learn_lessons()
            except StorageError as error:  # Nothing is lost: they are distilled anew.
                log.debug("lessons not kept: %s", error)
        self.store.close()

    def __enter__(self) -> Memory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
