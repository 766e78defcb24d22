# SPDX-License-Identifier: Apache-2.0
"""`kope memory prune`: forget what is worth least."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kope_tvm.console import json_option, show, table, work
from kope_tvm.opened_memory import memory_option, open_memory

if TYPE_CHECKING:
    from kope_tvm.memory.prune import Pruned

_DAY_SECS = 86400.0


@click.command("prune")
@click.option(
    "--keep",
    type=click.IntRange(min=0),
    default=100_000,
    show_default=True,
    metavar="N",
    help="About how many experiences stay.",
)
@click.option(
    "--older-than",
    type=click.FloatRange(min=0),
    default=0.0,
    metavar="DAYS",
    help="What is younger stays.",
)
@click.option("--dry-run", is_flag=True, help="Say what would go, and change nothing.")
@memory_option
@json_option
def command(keep: int, older_than: float, dry_run: bool, memory: str | None, as_json: bool) -> None:
    """Forget the experiences that are slowest, repeated, failed and oldest.

    Whatever N is, these stay: of every task and machine the fastest of each space, the newest
    failure of each kind, the slowest program, and what was refused for cheating; 32 of every
    operator class and machine; and what any of these came from, mends or was carried over from.
    A later merge, import or resumed tuning brings back what it still has.
    """
    with work(as_json=as_json), open_memory(memory) as opened:
        pruned = opened.prune(keep, older_than * _DAY_SECS, dry_run=dry_run)
    show(pruned, _spell(pruned, dry_run), as_json=as_json)


def _spell(pruned: Pruned, dry_run: bool) -> str:
    rows = [("kept", why, count) for why, count in sorted(pruned.kept.items())]
    gone = "would go" if dry_run else "dropped"
    rows += [(gone, why, count) for why, count in sorted(pruned.dropped.items())]
    total = f"{pruned.before} experiences: {pruned.num_kept} kept, {pruned.num_dropped} {gone}"
    freed = f", {pruned.bytes_freed} bytes freed" if pruned.bytes_freed else ""
    return f"{table(('WHAT', 'WHY', 'HOW MANY'), rows)}\n{total}{freed}"
