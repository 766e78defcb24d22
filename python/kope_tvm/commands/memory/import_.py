# SPDX-License-Identifier: Apache-2.0
"""`kope memory import`: learn from what other tunings left behind, without a trial or a token."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kope_tvm.console import json_option, show, table, work
from kope_tvm.errors import UsageError
from kope_tvm.opened_memory import memory_option, open_memory

if TYPE_CHECKING:
    from kope_tvm.imported import Imported
    from kope_tvm.memory.memory import Memory
    from kope_tvm.target import TargetSpec


@click.command("import")
@click.argument("sources", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--target", metavar="NAME", help="The machine of stock records, not what they say.")
@memory_option
@json_option
def command(sources: Sequence[Path], target: str | None, memory: str | None, as_json: bool) -> None:
    """Take in the experience of each work_dir or exported FILE.jsonl; once more changes nothing.

    A work_dir is kope's own, or any that MetaSchedule tuned in: its records become edges, the
    failed ones too.
    """
    for source in sources:
        if not source.exists():
            raise UsageError(f"{source}: no such folder or file; expected a work_dir or a .jsonl")
    with work(as_json=as_json):
        found = _imported(sources, target, memory)
    rows = [(one.work_dir, one.source, one.experiences, one.failures, one.new) for one in found]
    text = table(("FROM", "KIND", "EXPERIENCES", "FAILURES", "NEW"), rows)
    show({"imported": found}, text, as_json=as_json)


def _imported(sources: Sequence[Path], target: str | None, memory: str | None) -> list[Imported]:
    from kope_tvm.machine import load_target

    spec = load_target(target) if target else None
    with open_memory(memory) as opened:
        return [_one(source, opened, spec) for source in sources]


def _one(source: Path, memory: Memory, spec: TargetSpec | None) -> Imported:
    from kope_tvm.imported import import_export, import_work_dir

    return (
        import_work_dir(source, memory, spec) if source.is_dir() else import_export(source, memory)
    )
