# SPDX-License-Identifier: Apache-2.0
"""`kope memory seed`: the experience that ships with kope: which is in, take it in, make it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from kope_tvm.console import json_option, show, work
from kope_tvm.errors import UsageError
from kope_tvm.opened_memory import memory_option, open_memory


@dataclass(frozen=True)
class Seeded:
    """A memory's seed."""

    place: str
    """The memory, or the file that was made."""
    versions: tuple[int, ...]
    """Of the seed, as far as they brought something."""
    added: int = 0
    """Experiences that were not there before."""


@click.command("seed")
@click.option("--load", is_flag=True, help="Take the seed into the memory.")
@click.option(
    "--make",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Tune a suite, and add what was learned to FILE (.jsonl.xz, or as text .jsonl.xz.b64).",
)
@click.option("--target", default="host", show_default=True, metavar="NAME", help="For --make.")
@click.option("--trials", type=click.IntRange(min=1), default=48, show_default=True)
@click.option("--rewind", type=click.IntRange(min=0), default=12, show_default=True, metavar="N")
@click.option("--op", "suite", multiple=True, metavar="op:...", help="Instead of the seed's suite.")
@memory_option
@json_option
def command(
    load: bool,
    make: Path | None,
    target: str,
    trials: int,
    rewind: int,
    suite: Sequence[str],
    memory: str | None,
    as_json: bool,
) -> None:
    """Say which seed is in the memory, load it, or make one from real runs."""
    if make is not None and (load or memory is not None):
        raise UsageError("--make writes a file of its own: give neither --load nor --memory")
    with work(as_json=as_json):
        done = (
            _looked_up(memory, load=load)
            if make is None
            else _made(make, suite, target, trials, rewind)
        )
    show(done, _spell(done), as_json=as_json)


def _looked_up(memory: str | None, *, load: bool) -> Seeded:
    from kope_tvm.memory.seed import load_seed, seed_versions

    with open_memory(memory) as opened:
        added = load_seed(opened.store) if load else 0
        return Seeded(opened.place, seed_versions(opened.store), added)


def _made(path: Path, suite: Sequence[str], target: str, trials: int, rewind: int) -> Seeded:
    from kope_tvm.memory.seed import load_seed, seed_versions
    from kope_tvm.memory.store import Store
    from kope_tvm.seeding import SEED_SUITE, make_seed

    def say(text: str) -> None:
        click.echo(text, err=True)

    added = make_seed(path, suite or SEED_SUITE, target, trials=trials, rewind=rewind, say=say)
    with Store.open("sqlite://") as seed:
        load_seed(seed, path)
        return Seeded(str(path), seed_versions(seed), added)


def _spell(done: Seeded) -> str:
    versions = ", ".join(map(str, done.versions)) or "none"
    return f"{done.place}: seed {versions}; {done.added} experiences added"
