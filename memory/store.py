# SPDX-License-Identifier: Apache-2.0
"""The experience graph on disk: SQLite (WAL) by default, the same schema on PostgreSQL for a team.

Every call is one transaction that is on disk when it returns. Any number of processes may write.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa

from kope_tvm.memory import repairs, rows
from kope_tvm.memory.batch import Batch
from kope_tvm.memory.database import TABLES, Database, connect, insert
from kope_tvm.memory.experience import Experience
from kope_tvm.memory.lessons import Lesson
from kope_tvm.target import TargetSpec
from kope_tvm.task import Features

log = logging.getLogger(__name__)

_TASK, _MACHINE, _STATE = TABLES["task"], TABLES["machine"], TABLES["state"]
_LESSON, _EVIDENCE = TABLES["lesson"], TABLES["evidence"]
_DECISION, _PROPOSAL = TABLES["decision"], TABLES["proposal"]
_CHUNK = 500
"""Rows a statement, below SQLite's limit on variables."""
_REMEMBERED = 100_000

_Item = TypeVar("_Item")


@dataclass(frozen=True)
class Stats:
    """How much a memory holds."""

    tasks: int
    machines: int
    states: int
    decisions: int
    """Edges of all lanes; the next two are some of them."""
    plans: int
    rewrites: int
    failures: int
    repairs: int
    lessons: int
    runs: int


class Store:
    """One memory: a file or a database."""

    def __init__(self, database: Database, notice: str = "") -> None:
        self.notice = notice
        """What the user should hear about opening it; empty where all was well."""
        self._database = database
        self._known: set[tuple[str, ...]] = set()

    @classmethod
    def open(cls, url: str | Path | None = None, *, busy_secs: float = 30.0) -> Store:
        """Open or create the memory at a SQLAlchemy URL or a path; None is the default file.

        A damaged file is set aside, never deleted, and `notice` says so.
        """
        database, notice = connect(url, busy_secs)
        if notice:
            log.warning(notice)
        return cls(database, notice)

    @property
    def place(self) -> str:
        """What messages call it; without a password."""
        return self._database.place

    def close(self) -> None:
        """Let go of the connections; what was recorded is safe without it."""
        self._database.engine.dispose()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def record(self, experience: Experience) -> bool:
        """Keep one experience; False where it was known already."""
        return self.record_many((experience,)) == 1

    def record_many(self, experiences: Iterable[Experience]) -> int:
        """Keep them all or none, in one transaction; how many were new."""
        batch = Batch(self._known)
        for experience in experiences:
            batch.add(rows.clean(experience))
        with self._database.writing() as connection:
            num_new = batch.write(connection)
        if len(self._known) > _REMEMBERED:
            self._known.clear()
        self._known |= batch.nodes
        return num_new

    def note_machine(self, spec: TargetSpec) -> None:
        """Keep the facts of a machine, that recall may compare machines by them."""
        row = rows.machine_row(rows.Machine(spec.key, spec.facts), spec.name, time.time())
        with self._database.writing() as connection:
            insert(connection, "machine", [row])

    def note_lessons(self, lessons: Iterable[Lesson]) -> None:
        """Replace all lessons; those that died are not in the list."""
        lessons = tuple(lessons)
        evidence = [row for lesson in lessons for row in lesson.evidence_rows()]
        with self._database.writing() as connection:
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
        with self._database.reading() as connection:
            found = [row._asdict() for row in connection.execute(query)]
            for row in connection.execute(sa.select(_EVIDENCE).order_by(_EVIDENCE.c.decision_key)):
                evidence.setdefault(row.lesson_key, []).append((row.decision_key, row.supports))
        return tuple(Lesson.from_row(row, evidence.get(row["key"], [])) for row in found)

    def experiences(
        self, machine_key: str | None = None, task_key: str | None = None
    ) -> Iterator[Experience]:
        """Everything recorded, in the order in which it came."""
        query = _whole()
        if machine_key is not None:
            query = query.where(_DECISION.c.machine_key == machine_key)
        if task_key is not None:
            query = query.where(_DECISION.c.task_key == task_key)
        for row in self._pages(query):
            yield rows.experience_from(row)

    def experiences_by_id(self, ids: Sequence[int]) -> dict[int, Experience]:
        """The experiences of some outlines; what was pruned meanwhile is missing."""
        query = _whole().where(_DECISION.c.id.in_(ids))
        with self._database.reading() as connection:
            found = [row._asdict() for row in connection.execute(query)]
        return {row["id"]: rows.experience_from(row) for row in found}

    def outlines(self, after_id: int = 0) -> Iterator[list[rows.Outline]]:
        """What was recorded after `after_id`, by anyone, in pages."""
        names = (name for name in rows.Outline._fields if name != "is_change")
        columns = [*(_DECISION.c[name] for name in names), _DECISION.c.change != ""]
        while True:
            query = sa.select(*columns).where(_DECISION.c.id > after_id).order_by(_DECISION.c.id)
            with self._database.reading() as connection:
                found = connection.execute(query.limit(100 * _CHUNK)).all()
            if not found:
                return
            yield [rows.Outline(*row) for row in found]
            after_id = found[-1].id

    def edges_by_id(self, ids: Sequence[int]) -> dict[int, rows.Edge]:
        """The words of some outlines; what was pruned meanwhile is missing."""
        columns = [_DECISION.c[name] for name in rows.Edge._fields]
        query = sa.select(*columns).where(_DECISION.c.id.in_(ids))
        with self._database.reading() as connection:
            return {row.id: rows.Edge(*row) for row in connection.execute(query)}

    def fixes(self, signature: str, op_class: str, limit: int = 3) -> tuple[repairs.Fix, ...]:
        """Former repairs of a failure, see `repairs.fixes`."""
        with self._database.reading() as connection:
            return repairs.fixes(connection, signature, op_class, limit)

    def features(self, task_keys: Iterable[str]) -> dict[str, Features]:
        """The features of some tasks."""
        found: dict[str, Features] = {}
        for keys in _chunks(task_keys):
            query = sa.select(_TASK.c.key, _TASK.c.features).where(_TASK.c.key.in_(keys))
            with self._database.reading() as connection:
                for key, text in connection.execute(query):
                    found[key] = rows.features_from(text)
        return found

    def machines(self) -> dict[str, rows.Machine]:
        """All machines that experience was made on, as far as they are known."""
        with self._database.reading() as connection:
            found = connection.execute(sa.select(_MACHINE.c.key, _MACHINE.c.facts)).all()
        return {key: rows.Machine(key, rows.facts_from(text)) for key, text in found}

    def stats(self) -> Stats:
        """How much is in it."""
        lane = _DECISION.c.lane
        counts = (
            _count(_TASK),
            _count(_MACHINE),
            _count(_STATE),
            _count(_DECISION),
            _count(_DECISION, lane == "plan"),
            _count(_DECISION, lane == "rewrite"),
            _count(_DECISION, _DECISION.c.code != ""),
            _count(TABLES["repair"]),
            _count(_LESSON),
            sa.select(sa.func.count(_DECISION.c.run_id.distinct())).scalar_subquery(),
        )
        with self._database.reading() as connection:
            found = connection.execute(sa.select(*counts)).one()
        return Stats(*map(int, found))

    def merge(self, other: Store) -> int:
        """Take in all that another memory holds; how many experiences were new.

        Safe to repeat and to break off: order and repetition change nothing.
        """
        # What refers is read before what it refers to, as the other may be written meanwhile.
        edges = {name: list(other._nodes(name)) for name in rows.DERIVED_EDGES}
        last_id = other._last_id()
        for name in rows.NODES:
            self._insert_all(name, other._nodes(name))
        num_new = self._insert_all("decision", other._decisions_until(last_id))
        for name, found in edges.items():
            self._insert_all(name, found)
        with self._database.writing() as connection:
            repairs.link_all(connection)
        return num_new

    def _insert_all(self, name: str, found: Iterable[rows.Row]) -> int:
        num_changed = 0
        for chunk in _chunks(found):
            with self._database.writing() as connection:
                num_changed += insert(connection, name, chunk)
        return num_changed

    def _last_id(self) -> int:
        with self._database.reading() as connection:
            return int(connection.execute(sa.select(sa.func.max(_DECISION.c.id))).scalar() or 0)

    def _nodes(self, name: str) -> Iterator[rows.Row]:
        query = sa.select(TABLES[name])
        with self._database.reading() as connection:
            for row in connection.execution_options(yield_per=_CHUNK).execute(query):
                yield row._asdict()

    def _decisions_until(self, last_id: int) -> Iterator[rows.Row]:
        for row in self._pages(sa.select(_DECISION).where(_DECISION.c.id <= last_id)):
            del row["id"]
            yield row

    def _pages(self, query: sa.Select[Any]) -> Iterator[rows.Row]:
        """Decisions page by page: a slow reader holds neither a transaction nor the log."""
        after = 0
        while True:
            page = query.where(_DECISION.c.id > after).order_by(_DECISION.c.id).limit(_CHUNK)
            with self._database.reading() as connection:
                found = [row._asdict() for row in connection.execute(page)]
            after = found[-1]["id"] if found else after
            yield from found
            if len(found) < _CHUNK:
                return


def _count(table: Any, *where: Any) -> Any:
    return sa.select(sa.func.count()).select_from(table).where(*where).scalar_subquery()


def _whole() -> sa.Select[Any]:
    """Decisions with what it takes to make Experiences of them."""
    return (
        sa.select(_DECISION, _PROPOSAL.c.text, _TASK.c.features)
        .join_from(_DECISION, _PROPOSAL, _DECISION.c.proposal_key == _PROPOSAL.c.key)
        .join(_TASK, _DECISION.c.task_key == _TASK.c.key)
    )


def _chunks(items: Iterable[_Item]) -> Iterator[list[_Item]]:
    iterator = iter(items)
    while chunk := list(islice(iterator, _CHUNK)):
        yield chunk
