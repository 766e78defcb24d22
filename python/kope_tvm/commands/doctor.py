# SPDX-License-Identifier: Apache-2.0
"""`kope doctor`: what works here, and the fix for what does not."""

from __future__ import annotations

import click

from kope_tvm.console import json_option, show, table, work
from kope_tvm.doctor import Finding, broken, examine


@click.command("doctor")
@json_option
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """Check versions, devices, toolchains, endpoint and memory."""
    with work(as_json=as_json):
        found = examine()
    show({"ok": not broken(found), "findings": found}, _spell(found), as_json=as_json)
    if broken(found):
        ctx.exit(1)


def _spell(found: tuple[Finding, ...]) -> str:
    rows = [(_mark(one), one.name, one.value) for one in found]
    fixes = [f"{one.name}: {one.fix}" for one in found if not one.ok and one.fix]
    parts = [table(("", "WHAT", "FOUND"), rows)]
    return "\n".join([*parts, *(["", "To fix or to get more:", *fixes] if fixes else [])])


def _mark(one: Finding) -> str:
    return "ok" if one.ok else "BROKEN" if one.required else "-"
