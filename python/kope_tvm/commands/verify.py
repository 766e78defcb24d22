# SPDX-License-Identifier: Apache-2.0
"""`kope verify`: check every record of a MetaSchedule database on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kope_tvm.console import json_option, show, table, work
from kope_tvm.errors import UsageError

if TYPE_CHECKING:
    from kope_tvm.verification import RecordCheck, Verification

_VERDICTS = ("right", "wrong", "broken", "unchecked")


@click.command("verify", short_help="Check the records of any MetaSchedule database.")
@click.argument("work_dir", type=click.Path(path_type=Path))
@json_option
@click.pass_context
def command(ctx: click.Context, work_dir: Path, as_json: bool) -> None:
    """Replay, build and check every record of WORK_DIR; exit code 1 where one is wrong."""
    if not work_dir.is_dir():
        raise UsageError(f"{work_dir}: no such folder; expected the work_dir of a tuning")
    with work(as_json=as_json):
        found = _verified(work_dir)
    show(found, _spell(found), as_json=as_json)
    ctx.exit(0 if found.ok else 1)


def _verified(work_dir: Path) -> Verification:
    from kope_tvm.verification import verify_work_dir

    return verify_work_dir(work_dir, lambda text: click.echo(text, err=True))


def _spell(found: Verification) -> str:
    headers = ("RECORD", "FUNCTION", "WORKLOAD", "VERDICT", "CODE", "ERROR/ALLOWED", "WHERE")
    lines = [table(headers, [_row(each) for each in found.records])] if found.records else []
    lines += [f"note: {notice}" for notice in found.notices]
    counts = ", ".join(f"{found.count(verdict)} {verdict}" for verdict in _VERDICTS)
    return "\n".join([*lines, f"{found.work_dir}: {len(found.records)} records: {counts}"])


def _row(check: RecordCheck) -> tuple[object, ...]:
    error = f"{check.error:.2g}" if check.error else ("0" if check.verdict == "right" else "-")
    code, where = check.code or "-", check.reason or "-"
    return (check.number, check.function, check.workload, check.verdict, code, error, where)
