# SPDX-License-Identifier: Apache-2.0
"""`kope bench`: kope against its peers, side by side in one run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from kope_tvm.errors import UsageError


@click.command("bench", short_help="Compare kope with its peers.")
@click.option("--suite", default="quick", show_default=True, metavar="NAME|op:...")
@click.option("--against", metavar="LIST", help="Peers, with commas between.")
@click.option("--trials", type=click.IntRange(min=1), default=32, show_default=True)
@click.option("--target", metavar="NAME", help="Of suite quick: host.")
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True)
@click.option("--repeats", type=click.IntRange(min=1), default=1, help="Tunings, a seed each.")
@click.option("--turns", type=click.IntRange(min=1), default=21, show_default=True)
@click.option("--json", "json_file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--markdown", "markdown_file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--part", "parts", multiple=True, help="Of a suite that has parts.")
@click.option("--only", multiple=True, metavar="TEXT", help="Operators with this in their spec.")
@click.option("--shard", default="1/1", metavar="I/N", help="The I-th of N parts of the suite.")
@click.option(
    "--state",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where a run that is stopped goes on from; default: beside the JSON.",
)
@click.option("--without", default="", metavar="LIST", help="Ablations beside kope, or `all`.")
@click.option("--proposer", default="experience", show_default=True, metavar="NAME")
@click.option(
    "--exchanges",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Answer from stored exchanges, one file an operator.",
)
@click.option(
    "--memory",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Every tuning starts with a copy of it; default: with nothing.",
)
@click.option("--again", type=click.IntRange(min=1), help="Repeat so many operators of --json.")
@click.option("--list", "list_all", is_flag=True, help="Name every suite and operator and stop.")
def command(list_all: bool, again: int | None, **given: Any) -> None:
    """Tune a suite with kope and its peers, time all in turns, print ratios."""
    if list_all:
        click.echo(_everything())
        return
    from kope_tvm.bench import suites
    from kope_tvm.bench.wanted import Wanted

    for option in ("json_file", "markdown_file"):
        _check_folder(option, given[option])
    against, without = given.pop("against"), given.pop("without")
    wanted = Wanted(
        against=_split(against) if against is not None else None,
        without=_split(without),
        shard=_shard(given.pop("shard")),
        parts=tuple(given.pop("parts")),
        say=_say,
        **given,
    )
    if again is None:
        suites.run(wanted)
        return
    from kope_tvm.bench.again import run_again

    run_again(wanted, again)


def _check_folder(option: str, file: Path | None) -> None:
    if file is not None and not file.parent.is_dir():
        flag = f"--{option.removesuffix('_file')}"
        raise UsageError(f"{flag} {file}: no folder {str(file.parent)!r} to write to")


def _shard(given: str) -> tuple[int, int]:
    number, _, count = given.partition("/")
    if number.isdigit() and count.isdigit() and 1 <= int(number) <= int(count):
        return int(number), int(count)
    raise UsageError(f"--shard {given}: expected I/N with I from 1 to N, such as 2/4")


def _split(against: str) -> tuple[str, ...]:
    return tuple(peer.strip() for peer in against.split(",") if peer.strip())


def _say(text: str) -> None:
    click.echo(text, err=True)


def _everything() -> str:
    from kope_tvm.bench import suites
    from kope_tvm.operators import known_operators

    operators = [f"op:{name}:{each.signature}" for name, each in known_operators().items()]
    return "\n".join([f"suites: {', '.join(suites.names())}", *operators])
