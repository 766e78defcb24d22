# SPDX-License-Identifier: Apache-2.0
"""How much a memory holds, counted by its database."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from kope_tvm.memory.database import TABLES

_DECISION = TABLES["decision"]


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
    suspicious: int
    """What was refused for cheating: rules, never examples."""
    repairs: int
    transfers: int
    """Edges from an experience to what was carried over from it."""
    lessons: int
    runs: int


def count_all(connection: sa.Connection) -> Stats:
    """How much is in it."""
    counts = (
        _count(TABLES["task"]),
        _count(TABLES["machine"]),
        _count(TABLES["state"]),
        _count(_DECISION),
        _count(_DECISION, _DECISION.c.lane == "plan"),
        _count(_DECISION, _DECISION.c.lane == "rewrite"),
        _count(_DECISION, _DECISION.c.code != ""),
        _count(_DECISION, _DECISION.c.suspicious),
        _count(TABLES["repair"]),
        _count(TABLES["transfer"]),
        _count(TABLES["lesson"]),
        sa.select(sa.func.count(_DECISION.c.run_id.distinct())).scalar_subquery(),
    )
    return Stats(*map(int, connection.execute(sa.select(*counts)).one()))


def _count(table: Any, *where: Any) -> Any:
    return sa.select(sa.func.count()).select_from(table).where(*where).scalar_subquery()
