# SPDX-License-Identifier: Apache-2.0
"""The experience graph on disk: SQLite (WAL) by default, the same schema on PostgreSQL for a team.

Every call is one transaction that is on disk when it returns. Any number of processes may write.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import sqlalchemy as sa

from kope_tvm.memory import repairs, rows, work_dirs
from kope_tvm.memory.batch import Batch
from kope_tvm.memory.database import TABLES, Database, bytewise, connect, insert
from kope_tvm.memory.experience import Experience
from kope_tvm.memory.lessons import Lesson
from kope_tvm.memory.merge import merge
from kope_tvm.memory.paging import chunks, pages
from kope_tvm.memory.recovery import recover
from kope_tvm.memory.stats import Stats, count_all
from kope_tvm.target import TargetSpec
from kope_tvm.task import Features

log = logging.getLogger(__name__)

_TASK, _MACHINE = TABLES["task"], TABLES["machine"]
_LESSON, _EVIDENCE = TABLES["lesson"], TABLES["evidence"]
_DECISION, _PROPOSAL = TABLES["decision"], TABLES["proposal"]
_OUTLINES = 1000
"""A page: what is held as Python objects while an index takes it in."""

# Built once: to build a statement takes longer than to run it, and recall runs all of these.
_BY_ID = _DECISION.c.id.in_(sa.bindparam("ids", expanding=True))
_WHOLE = (
    sa.select(_DECISION, _PROPOSAL.c.text, _TASK.c.features)
    .join_from(_DECISION, _PROPOSAL, _DECISION.c.proposal_key == _PROPOSAL.c.key)
    .join(_TASK, _DECISION.c.task_key == _TASK.c.key)
)
"""Decisions with what it takes to make Experiences of them."""
_WHOLE_BY_ID = _WHOLE.where(_BY_ID)
_OUTLINES_AFTER = (
    sa.select(*(_DECISION.c[name] for name in rows.Outline._fields))
    .where(_DECISION.c.id > sa.bindparam("after_id"))
    .order_by(_DECISION.c.id)
    .limit(_OUTLINES)
)
_CHARS_BY_ID = (
    sa.select(_DECISION.c.id, sa.func.length(_PROPOSAL.c.text).label("chars"))
    .join_from(_DECISION, _PROPOSAL, _DECISION.c.proposal_key == _PROPOSAL.c.key)
    .where(_BY_ID)
)
_EDGES_BY_ID = sa.select(*(_DECISION.c[name] for name in rows.Edge._fields)).where(_BY_ID)
_MACHINES = sa.select(_MACHINE.c.key, _MACHINE.c.facts)


class Store:
    """One memory: a file or a database."""

    def __init__(self, database: Database) -> None:
        self.notice = ""
        """What the user should hear about opening it; empty where all was well."""
        self.database = database
        self._known_machines: set[str] = set()

    @classmethod
    def open(cls, url: str | Path | None = None, *, busy_secs: float = 30.0) -> Store:
        """Open or create the memory at a SQLAlchemy URL or a path; None is the default file.

        A damaged file is set aside, never deleted; what can be read of it and of the work_dirs
        that fed it is taken into a new one, and `notice` says so.
        """
        store = cls(connect(url, busy_secs))
        store.notice = recover(store)
        if store.notice:
            log.warning(store.notice)
        return store

    @property
    def place(self) -> str:
        """What messages call it; without a password."""
        return self.database.place

    def close(self) -> None:
        """Let go of the connections; what was recorded is safe without it."""
        self.database.engine.dispose()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def record(self, experience: Experience) -> bool:
        """Keep one experience; False where it was known already."""
        return self.record_many((experience,)) == 1

    def record_many(self, experiences: Iterable[Experience]) -> int:
        """Keep them all or none, in one transaction; how many were new."""
        batch = Batch(self._known_machines)
        for experience in experiences:
            batch.add(rows.clean(experience))
        with self.database.writing() as connection:
            num_new = batch.write(connection)
        self._known_machines |= batch.machines
        return num_new

    def note_machine(self, spec: TargetSpec, at: float | None = None) -> None:
        """Keep the facts of a machine as they are known now, or were `at` seconds of the epoch.

        Recall compares machines by them.
        """
        seen_at = time.time() if at is None else at
        row = rows.machine_row(rows.Machine.of(spec), spec.name, seen_at)
        with self.database.writing() as connection:
            insert(connection, "machine", [row])

    def note_work_dir(self, work_dir: Path) -> None:
        """Remember where experience comes from, beside the file: a damaged one is rebuilt so."""
        if self.database.path is not None:
            work_dirs.note(self.database.path, work_dir)

    def note_lessons(self, lessons: Iterable[Lesson]) -> None:
        """Replace all lessons; those that died are not in the list."""
        lessons = tuple(lessons)
        evidence = [row for lesson in lessons for row in lesson.evidence_rows()]
        with self.database.writing() as connection:
            connection.execute(sa.delete(_EVIDENCE))
            connection.execute(sa.delete(_LESSON))
            insert(connection, "lesson", [lesson.row(time.time()) for lesson in lessons])
            insert(connection, "evidence", evidence)

    def lessons(self, op_class: str | None = None) -> tuple[Lesson, ...]:
        """The lessons in force, with their evidence."""
        query = sa.select(_LESSON).order_by(_LESSON.c.key)
        if op_class is not None:
            query = query.where(_LESSON.c.op_class == op_class)
        evidence: dict[str, list[tuple[str, bool]]] = {}
        with self.database.reading() as connection:
            found = [row._asdict() for row in connection.execute(query)]
            for row in connection.execute(sa.select(_EVIDENCE).order_by(_EVIDENCE.c.decision_key)):
                evidence.setdefault(row.lesson_key, []).append((row.decision_key, row.supports))
        return tuple(Lesson.from_row(row, evidence.get(row["key"], [])) for row in found)

    def experiences(
        self, machine_key: str | None = None, task_key: str | None = None
    ) -> Iterator[Experience]:
        """Everything recorded, in the order in which it came."""
        query = _WHOLE
        if machine_key is not None:
            query = query.where(_DECISION.c.machine_key == machine_key)
        if task_key is not None:
            query = query.where(_DECISION.c.task_key == task_key)
        for row in pages(self.database, query):
            yield rows.experience_from(row)

    def chronicle(self) -> Iterator[Experience]:
        """Everything recorded, from the oldest on: the same order in every memory of the same."""
        with self.database.reading() as connection:
            query = sa.select(_DECISION.c.id)
            query = query.order_by(
                _DECISION.c.at, bytewise(connection.dialect.name, _DECISION.c.key)
            )
            ids = [*connection.execute(query).scalars()]
        for chunk in chunks(ids):
            found = self.experiences_by_id(chunk)
            yield from (found[number] for number in chunk if number in found)

    def first_at(self, run_id: str) -> float | None:
        """When the first experience of a run was made; None where there is none."""
        query = sa.select(sa.func.min(_DECISION.c.at)).where(_DECISION.c.run_id == run_id)
        with self.database.reading() as connection:
            found: float | None = connection.execute(query).scalar()
        return found

    def experiences_by_id(self, ids: Sequence[int]) -> dict[int, Experience]:
        """The experiences of some outlines; what was pruned meanwhile is missing."""
        with self.database.reading() as connection:
            found = [row._asdict() for row in connection.execute(_WHOLE_BY_ID, {"ids": ids})]
        return {row["id"]: rows.experience_from(row) for row in found}

    def outlines(self, after_id: int = 0) -> Iterator[list[rows.Outline]]:
        """What was recorded after `after_id`, by anyone, in pages."""
        while True:
            with self.database.reading() as connection:
                found = connection.execute(_OUTLINES_AFTER, {"after_id": after_id}).all()
            if not found:
                return
            yield [rows.Outline(*row) for row in found]
            after_id = found[-1].id

    def proposal_chars(self, ids: Sequence[int]) -> dict[int, int]:
        """How long the proposals of some outlines are."""
        with self.database.reading() as connection:
            found = connection.execute(_CHARS_BY_ID, {"ids": ids})
            return {row.id: row.chars for row in found}

    def edges_by_id(self, ids: Sequence[int]) -> dict[int, rows.Edge]:
        """The words of some outlines; what was pruned meanwhile is missing."""
        with self.database.reading() as connection:
            found = connection.execute(_EDGES_BY_ID, {"ids": ids})
            return {row.id: rows.Edge(*row) for row in found}

    def fixes(self, signature: str, op_class: str, limit: int = 3) -> tuple[repairs.Fix, ...]:
        """Former repairs of a failure, see `repairs.fixes`."""
        with self.database.reading() as connection:
            return repairs.fixes(connection, signature, op_class, limit)

    def features(self, task_keys: Iterable[str]) -> dict[str, Features]:
        """The features of some tasks."""
        found: dict[str, Features] = {}
        for keys in chunks(task_keys):
            query = sa.select(_TASK.c.key, _TASK.c.features).where(_TASK.c.key.in_(keys))
            with self.database.reading() as connection:
                for key, text in connection.execute(query):
                    found[key] = rows.features_from(text)
        return found

    def machines(self) -> dict[str, rows.Machine]:
        """All machines that experience was made on, as far as they are known."""
        with self.database.reading() as connection:
            found = connection.execute(_MACHINES).all()
        return {key: rows.Machine(key, rows.facts_from(text)) for key, text in found}

    def stats(self) -> Stats:
        """How much is in it."""
        with self.database.reading() as connection:
            return count_all(connection)

    def merge(self, other: Store) -> int:
        """Take in all that another memory holds; how many experiences were new.

        Safe to repeat and to break off: order and repetition change nothing.
        """
        return merge(self.database, other.database)
