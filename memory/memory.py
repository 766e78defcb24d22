# SPDX-License-Identifier: Apache-2.0
"""The memory as the rest of kope sees it: record what happened, recall what may help."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from kope_tvm.memory.experience import Experience, Recalled
from kope_tvm.memory.lessons import Lesson, distil
from kope_tvm.memory.recall import ExperienceIndex, recall
from kope_tvm.memory.store import Stats, Store
from kope_tvm.target import TargetSpec
from kope_tvm.task import Task

if TYPE_CHECKING:
    from kope_tvm.memory.graph import ExperienceGraph


class Memory:
    """One store, and an index over it that is filled at the first recall."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._index = ExperienceIndex(store)
        self._lock = Lock()

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
        return self.store.record(experience)

    def record_many(self, experiences: Iterable[Experience]) -> int:
        """Keep them all or none; how many were new."""
        return self.store.record_many(experiences)

    def note_machine(self, spec: TargetSpec) -> None:
        """Keep the facts of a machine, that recall may compare machines by them."""
        self.store.note_machine(spec)

    def recall(self, task: Task, limit: int = 8) -> tuple[Recalled, ...]:
        """What may help with a task, by this process's experience and everybody's."""
        with self._lock:
            return recall(self._index, task, limit=limit)

    def graph(self, task_key: str) -> ExperienceGraph:
        """The decisions of one task as a graph."""
        from kope_tvm.memory.graph import ExperienceGraph  # networkx is slow to import

        return ExperienceGraph.from_store(self.store, task_key=task_key)

    def learn_lessons(self) -> tuple[Lesson, ...]:
        """Distil the lessons anew from all experience, and keep them."""
        lessons = distil(self.store.comparisons())
        self.store.note_lessons(lessons)
        return lessons

    def stats(self) -> Stats:
        """How much it holds."""
        return self.store.stats()

    def merge(self, other: Memory) -> int:
        """Take in all that another memory holds; how many experiences were new."""
        return self.store.merge(other.store)

    def close(self) -> None:
        """Let go of the connections; what was recorded is safe without it."""
        self.store.close()

    def __enter__(self) -> Memory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
