# SPDX-License-Identifier: Apache-2.0
"""`kope memory verify`: whether all that is remembered is as it was written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kope_tvm.console import json_option, show, work
from kope_tvm.opened_memory import memory_option

if TYPE_CHECKING:
    from kope_tvm.memory.verification import Verified

_TOLD = 20


@click.command("verify")
@click.option("--rebuild", is_flag=True, help="Set a damaged file aside and make it good.")
@memory_option
@json_option
@click.pass_context
def command(ctx: click.Context, rebuild: bool, memory: str | None, as_json: bool) -> None:
    """Check the file, every reference and the content hash of every edge; exit 1 on damage.

    What is made good comes from the file itself, as far as it can be read, and from the work_dirs
    that fed the memory; the damaged file is kept beside it. Opening does the same of itself where
    the damage keeps the file from being opened.
    """
    with work(as_json=as_json):
        found = _verified(memory, rebuild)
    show(found, _spell(found), as_json=as_json)
    ctx.exit(0 if found.ok else 1)


def _verified(memory: str | None, rebuild: bool) -> Verified:
    from kope_tvm.memory.verification import rebuilt, verified

    return rebuilt(memory) if rebuild else verified(memory)


def _spell(found: Verified) -> str:
    lines = [f"{fault.where}: {fault.what}" for fault in found.faults[:_TOLD]]
    if len(found.faults) > _TOLD:
        lines.append(f"... and {len(found.faults) - _TOLD} more")
    if found.notice:
        lines.append(found.notice)
    if found.ok:
        return "\n".join([*lines, f"{found.place}: {found.decisions} decisions, nothing wrong"])
    help_text = "`kope memory verify --rebuild` sets it aside and makes it good"
    return "\n".join([*lines, f"{found.place}: {len(found.faults)} faults; {help_text}"])
