# SPDX-License-Identifier: Apache-2.0
"""`kope memory stats`: how much is remembered, and where."""

from __future__ import annotations

import click

from kope_tvm.console import json_option, plain, show, table, work
from kope_tvm.opened_memory import memory_option, open_memory


@click.command("stats")
@memory_option
@json_option
def command(memory: str | None, as_json: bool) -> None:
    """Say how much it holds and where it is."""
    with work(as_json=as_json), open_memory(memory) as opened:
        held = {"place": opened.place, **plain(opened.stats())}
    show(held, table(("WHAT", "HOW MANY"), list(held.items())), as_json=as_json)
