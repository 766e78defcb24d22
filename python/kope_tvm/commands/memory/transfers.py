# SPDX-License-Identifier: Apache-2.0
"""`kope memory transfers`: what was carried to other tasks and machines, and how that went."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from kope_tvm.console import json_option, show, table, work
from kope_tvm.opened_memory import memory_option, open_memory

if TYPE_CHECKING:
    from kope_tvm.memory.transfers import Transfer

_HEADERS = ("CARRIED", "FAILED", "RATIO", "FROM", "TO", "SPACE", "DECISION")


@click.command("transfers")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True)
@memory_option
@json_option
def command(limit: int, memory: str | None, as_json: bool) -> None:
    """Show the decisions that were carried over, relative to the hardware, the commonest first.

    RATIO is the speed-up there over the speed-up where it came from.
    """
    with work(as_json=as_json), open_memory(memory) as opened:
        from kope_tvm.memory.transfers import transfers

        found = transfers(opened.store)
    show({"transfers": found}, _spell(found, limit), as_json=as_json)


def _spell(found: Sequence[Transfer], limit: int) -> str:
    if not found:
        return "nothing was carried over yet; `kope tune` does it where a similar task is on record"
    rows = [_row(one) for one in found[:limit]]
    more = [f"... {len(found) - limit} more"] if len(found) > limit else []
    return "\n".join([table(_HEADERS, rows), *more])


def _row(one: Transfer) -> tuple[str, ...]:
    from kope_tvm.relative.wording import told

    ratio = f"{one.ratio:.2f}x" if one.ratio else "-"
    what = told(one.relative) if one.relative else "as it was"
    counts = (str(one.carried), str(one.failed), ratio)
    return (*counts, one.machine_from, one.machine_to, one.space, what)
