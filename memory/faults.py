# SPDX-License-Identifier: Apache-2.0
"""What is wrong inside a memory: names that no longer say what they name, and edges that dangle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from kope_tvm.memory import links, rows
from kope_tvm.memory.database import TABLES, Database
from kope_tvm.memory.paging import pages

_DECISION, _PROPOSAL = TABLES["decision"], TABLES["proposal"]
_TASK, _STATE = TABLES["task"], TABLES["state"]
_MISSING_STATES = (
    sa.select(sa.func.count())
    .select_from(_DECISION)
    .where(
        ~sa.exists().where(
            _STATE.c.task_key == _DECISION.c.task_key, _STATE.c.key == _DECISION.c.state
        )
    )
)
_MOST = 100
"""Of one kind that are told; who has more needs no list."""
_NOT_AS_WRITTEN = (AttributeError, KeyError, OverflowError, TypeError, ValueError)


@dataclass(frozen=True)
class Fault:
    """One thing that is not as it was written."""

    where: str
    """`file`, or a table and a key in it."""
    what: str


def faults(database: Database) -> Iterator[Fault]:
    """All that is wrong, most basic first: every decision and proposal is hashed again."""
    if database.engine.dialect.name == "sqlite":
        yield from _of_file(database)
    yield from _of_nodes(database)
    yield from _of_decisions(database)
    with database.reading() as connection:
        num_missing = int(connection.execute(_MISSING_STATES).scalar_one())
        if num_missing:
            yield Fault("state", f"the states of {num_missing} decisions are missing")
        for name, (missing, too_many) in links.astray(connection).items():
            if missing or too_many:
                yield Fault(name, f"{missing} edges are missing, {too_many} follow from nothing")


def _of_file(database: Database) -> Iterator[Fault]:
    with database.reading() as connection:
        for (text,) in connection.exec_driver_sql(f"PRAGMA integrity_check({_MOST})"):
            if text != "ok":
                yield Fault("file", text)
        found = connection.exec_driver_sql("PRAGMA foreign_key_check").fetchmany(_MOST)
    for table, row_id, parent, _ in found:
        yield Fault(f"{table} {row_id}", f"refers to a {parent} that is not there")


def _of_nodes(database: Database) -> Iterator[Fault]:
    for name, anew in (("task", _task_anew), ("machine", _machine_anew)):
        with database.reading() as connection:
            found = [row._asdict() for row in connection.execute(sa.select(TABLES[name]))]
        for row in found:
            if not _is_as_written(row, anew):
                yield Fault(f"{name} {row['key']}", "its columns contradict each other")


def _task_anew(row: rows.Row) -> rows.Row:
    features = rows.features_from(row["features"])
    return rows.task_row(row["key"], row["name"], features, row["seen_at"])


def _machine_anew(row: rows.Row) -> rows.Row:
    machine = rows.Machine(row["key"], rows.facts_from(row["facts"]))
    return rows.machine_row(machine, row["name"], row["seen_at"])


def _is_as_written(row: rows.Row, anew: Any) -> bool:
    """Whether the columns that follow from the JSON do; a newer kope may know more of it."""
    try:
        other = anew(row)
    except _NOT_AS_WRITTEN:
        return False
    return all(row[name] == other[name] for name in row if name not in ("features", "facts"))


def _of_decisions(database: Database) -> Iterator[Fault]:
    query = (
        sa.select(_DECISION, _PROPOSAL.c.text, _TASK.c.features)
        .join_from(_DECISION, _PROPOSAL, _DECISION.c.proposal_key == _PROPOSAL.c.key)
        .join(_TASK, _DECISION.c.task_key == _TASK.c.key)
    )
    for row in pages(database, query):
        what = _fault_of(row)
        if what:
            yield Fault(f"decision {row['key']}", what)


def _fault_of(row: Mapping[str, Any]) -> str:
    try:
        experience = rows.clean(rows.experience_from(row))
        if rows.proposal_row(experience)["key"] != row["proposal_key"]:
            return "its proposal is another text than was kept"
        anew = rows.decision_row(experience, row["proposal_key"])
        if any(row[name] != value for name, value in anew.items()):
            return "its content is not what its key names"
    except _NOT_AS_WRITTEN as error:
        return f"its content cannot be read ({error})"
    return ""
