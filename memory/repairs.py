# SPDX-License-Identifier: Apache-2.0
"""What was tried against a failure before: edges from a failed decision to those that mend it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from kope_tvm.memory.database import TABLES

_FAILED, _MENDED = TABLES["decision"].alias("failed"), TABLES["decision"].alias("mended")
_REPAIR, _TASK = TABLES["repair"], TABLES["task"]
_CHUNK = 500
"""Rows a statement, below SQLite's limit on variables."""
_LOOKED_AT = 200
"""The newest repairs of a failure that are ranked."""


@dataclass(frozen=True)
class Fix:
    """One attempt at a failure like the one at hand."""

    code: str
    """Of the failure."""
    reason: str
    change: str
    """What was done about it."""
    worked: bool
    """Whether it was measured then, fast or slow."""
    turns: int
    """1 where it was the first attempt."""


def link(connection: sa.Connection, keys: Sequence[str]) -> None:
    """Draw the edges to the decisions of these keys."""
    for start in range(0, len(keys), _CHUNK):
        _link(connection, _MENDED.c.key.in_(keys[start : start + _CHUNK]))


def link_all(connection: sa.Connection) -> None:
    """Draw all edges that the decisions tell of, in whatever order they came."""
    _link(connection)


def _link(connection: sa.Connection, *which: Any) -> None:
    found = (
        sa.select(_FAILED.c.key, _MENDED.c.key, _MENDED.c.signature, _MENDED.c.repair_turn)
        .join_from(
            _MENDED,
            _FAILED,
            (_FAILED.c.task_key == _MENDED.c.task_key)
            & (_FAILED.c.run_id == _MENDED.c.run_id)
            & (_FAILED.c.state == _MENDED.c.repairs)
            & (_FAILED.c.key != _MENDED.c.key),
        )
        # As text, for SQLite to see that its partial indices hold what is asked for.
        .where(sa.text("mended.repairs <> ''"), sa.text("failed.code <> ''"), *which)
    )
    make = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
    edges = make(_REPAIR).from_select([column.name for column in _REPAIR.c], found)
    connection.execute(edges.on_conflict_do_nothing())


def fixes(connection: sa.Connection, signature: str, op_class: str, limit: int) -> tuple[Fix, ...]:
    """Former repairs of the same failure, then of the same code; those that worked first.

    Where any of the same failure did not work, the last of the list is such a one, as a warning.
    """
    code = signature.partition(" ")[0]
    found = [
        (not row.is_same, row.op_class != op_class, Fix(*row[:5]))
        for row in connection.execute(_alike(signature, code))
    ]
    # Stable: of equals the newest comes first.
    found.sort(key=lambda item: item[:2])
    good = _once(fix for *_, fix in found if fix.worked)
    bad = _once(fix for other, _, fix in found if not fix.worked and not other)
    kept = good[: max(limit - 1, 1)] if bad else good
    return tuple([*kept, *bad][:limit])


def _alike(signature: str, code: str) -> sa.Select[Any]:
    """Repairs of failures of one code, the same failure's first."""
    is_same = _REPAIR.c.signature == signature
    return (
        sa.select(
            _FAILED.c.code,
            _FAILED.c.reason,
            _MENDED.c.change,
            _MENDED.c.code == "",
            _REPAIR.c.turn,
            _TASK.c.op_class,
            is_same.label("is_same"),
        )
        .join_from(_REPAIR, _FAILED, _REPAIR.c.failed_key == _FAILED.c.key)
        .join(_MENDED, _REPAIR.c.repaired_key == _MENDED.c.key)
        .join(_TASK, _MENDED.c.task_key == _TASK.c.key)
        .where(_FAILED.c.code == code, sa.not_(_MENDED.c.suspicious), _MENDED.c.change != "")
        .order_by(is_same.desc(), _MENDED.c.id.desc())
        .limit(_LOOKED_AT)
    )


def _once(found: Any) -> list[Fix]:
    return list({(fix.change, fix.worked): fix for fix in reversed([*found])}.values())[::-1]
