# SPDX-License-Identifier: Apache-2.0
"""The memory that a command was given, opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from kope_tvm.memory.memory import Memory

memory_option = click.option("--memory", metavar="URL", help="A SQLAlchemy URL or a file.")


def open_memory(url: str | None) -> Memory:
    """Open it, and say on stderr what the user should hear about that."""
    from kope_tvm.seeded import open_seeded

    opened = open_seeded(url)
    if opened.notice:
        click.echo(opened.notice, err=True)
    return opened
