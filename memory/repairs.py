# SPDX-License-Identifier: Apache-2.0
"""What was tried against a failure before: edges from a failed decision to those that mend it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from kope_tvm.memory.database import TABLES

_FAILED, _MENDED = TABLES["decision"].alias("failed"), TABLES["decision"].alias("mended")
_REPAIR, _TASK = TABLES["repair"], TABLES["task"]
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
