# SPDX-License-Identifier: Apache-2.0
"""`kope memory merge`: take in all that another memory holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from kope_tvm.console import json_option, show, work
from kope_tvm.errors import UsageError
from kope_tvm.opened_memory import memory_option, open_memory

if TYPE_CHECKING:
    from kope_tvm.memory.store import Store


@dataclass(frozen=True)
class Merged:
    """What a merge brought."""

    place: str
    source: str
    experiences: int
    """In the source."""
    new: int


@click.command("merge")
@click.argument("src_url")
@memory_option
@json_option
def command(src_url: str, memory: str | None, as_json: bool) -> None:
    """Take in all of the memory at SRC_URL, a SQLAlchemy URL or a file; it keeps what it has.

    Order and repetition change nothing. What was pruned here comes back where SRC_URL has it still.
    """
    with work(as_json=as_json):
        found = _merged(src_url, memory)
    text = (
        f"{found.place}: {found.new} of {found.experiences} experiences of {found.source} are new"
    )
    show(found, text, as_json=as_json)


def _merged(src_url: str, memory: str | None) -> Merged:
    with _source(src_url) as source, open_memory(memory) as opened:
        num_new = opened.store.merge(source)
        opened.learn_lessons()
        return Merged(opened.place, source.place, source.stats().decisions, num_new)


def _source(url: str) -> Store:
    """Open it where it is one and sound: opening would make a missing one, and mend a damaged."""
    from kope_tvm.memory.database import file_of
    from kope_tvm.memory.location import damage
    from kope_tvm.memory.store import Store

    path = file_of(url)
    if path is not None:
        if not path.exists():
            raise UsageError(f"{path}: no such file; expected a memory to merge from")
        what = damage(path)
        if what:
            raise UsageError(
                f"{path} is damaged ({what}); `kope memory verify --rebuild --memory {path}` first"
            )
    return Store.open(url)
