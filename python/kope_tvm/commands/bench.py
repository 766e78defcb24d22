# SPDX-License-Identifier: Apache-2.0
"""`kope bench`: kope against its peers, side by side in one run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from kope_tvm.errors import UsageError

_PIPE_COLUMNS = 200


@click.command("bench", short_help="Compare kope with its peers.")
@click.option(
    "--suite", default="quick", show_default=True, metavar="quick|kope53|memory|riscv|op:..."
)
@click.option(
    "--against",
    default="metaschedule,onnxruntime",
    show_default=True,
    metavar="LIST",
    help="Peers, with commas between.",
)
@click.option("--trials", type=click.IntRange(min=1), default=32, show_default=True)
@click.option("--target", default="host", show_default=True, metavar="NAME")
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True)
@click.option("--json", "json_file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--part", "parts", multiple=True, help="Of suite memory: growth or transfer.")
@click.option("--list", "list_operators", is_flag=True, help="Name every operator and stop.")
def command(
    suite: str,
    against: str,
    trials: int,
    target: str,
    seed: int,
    json_file: Path | None,
    parts: Sequence[str],
    list_operators: bool,
) -> None:
    """Tune a suite with kope and its peers, time all in turns, print ratios."""
    if list_operators:
        click.echo(_operators())
        return
    if json_file is not None and not json_file.parent.is_dir():
        raise UsageError(f"--json {json_file}: no folder {str(json_file.parent)!r} to write to")
    if suite == "memory":
        _bench_memory(parts, trials, target, seed, json_file)
        return
    if suite == "riscv":
        _bench_riscv(trials, target, seed, json_file)
        return
    peers = [peer.strip() for peer in against.split(",") if peer.strip()]
    _bench(suite, peers, target, trials, seed, json_file)


def _bench(
    suite: str, peers: list[str], target: str, trials: int, seed: int, json_file: Path | None
) -> None:
    from rich.console import Console

    from kope_tvm.bench.result import table
    from kope_tvm.bench.run import run_bench, write_json

    def say(text: str) -> None:
        click.echo(text, err=True)

    found = run_bench(suite, peers, target=target, trials=trials, seed=seed, say=say)
    if json_file is not None:
        write_json(found, json_file)
    # In a pipe rich assumes 80 columns, and would cut the operators' names.
    console = Console()
    console.width = console.width if console.is_terminal else _PIPE_COLUMNS
    console.print(table(found))


def _bench_memory(
    parts: Sequence[str], trials: int, target: str, seed: int, json_file: Path | None
) -> None:
    from kope_tvm.bench.memory import PARTS, report, run_memory, say

    if unknown := [part for part in parts if part not in PARTS]:
        raise UsageError(f"unknown part {unknown[0]!r} of suite memory; parts: {', '.join(PARTS)}")
    found = run_memory(parts or PARTS, trials=trials, target=target, seed=seed, say=say)
    report(found, json_file)


def _bench_riscv(trials: int, target: str, seed: int, json_file: Path | None) -> None:
    from kope_tvm.bench.riscv import TARGET, report, run_riscv, say

    board = TARGET if target == "host" else target
    report(run_riscv(trials=trials, target=board, seed=seed, say=say), json_file)


def _operators() -> str:
    from kope_tvm.operators import known_operators

    return "\n".join(f"op:{name}:{each.signature}" for name, each in known_operators().items())
