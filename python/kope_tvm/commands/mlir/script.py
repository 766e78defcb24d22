# SPDX-License-Identifier: Apache-2.0
"""`kope mlir script`: a transform script tuned through MLIR's own compiler."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kope_tvm.chat.budget import Limits
from kope_tvm.chat.open import check_dialogue
from kope_tvm.commands.mlir.export import write
from kope_tvm.commands.tune import spell_spent
from kope_tvm.config import load_endpoint
from kope_tvm.console import json_option, show, work
from kope_tvm.errors import KopeError, UsageError
from kope_tvm.model_options import PROPOSERS, model_options
from kope_tvm.opened_memory import memory_option, open_memory

if TYPE_CHECKING:
    from kope_tvm.mlir.script_run import ScriptReport, Words


@click.command("script", short_help="Tune through MLIR's own compiler, and write the script.")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--target", default="host", show_default=True, metavar="NAME")
@click.option("--trials", type=click.IntRange(min=1), default=16, show_default=True)
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), required=True)
@click.option(
    "--work-dir",
    type=click.Path(path_type=Path),
    help="Where a model's exchanges.jsonl is kept. Default: the folder of the script.",
)
@model_options
@memory_option
@json_option
def command(
    file: Path,
    target: str,
    trials: int,
    output: Path,
    work_dir: Path | None,
    proposer: str,
    exchanges: Path | None,
    max_tokens: int | None,
    max_usd: float | None,
    max_calls: int | None,
    memory: str | None,
    as_json: bool,
) -> None:
    """Tune FILE's only function on this machine, one thread, each script proved and remembered."""
    limits = Limits(max_tokens, max_usd, max_calls)
    _check_proposer(proposer, limits, exchanges)
    with work(as_json=as_json):
        from kope_tvm.mlir.script_run import Words

        words = Words(proposer, limits, exchanges, work_dir or output.parent)
        report = _tuned(file, target, trials, words, memory)
        best = report.best
        if best is None:
            raise KopeError(f"{file}: none of {report.trials} scripts was right")
        write(output, best.script)
    found = {"script": str(output), **report.told}
    show(found, _spell(output, report, limits), as_json=as_json)


def _check_proposer(proposer: str, limits: Limits, exchanges: Path | None) -> None:
    """Find a wrong call before TVM is loaded."""
    from kope_tvm.memory.location import default_path

    if proposer not in PROPOSERS:
        raise UsageError(f"--proposer {proposer!r} is not known; known: {', '.join(PROPOSERS)}")
    check_dialogue(proposer, load_endpoint(default_path().parent), limits, exchanges)


def _tuned(file: Path, target: str, trials: int, words: Words, memory: str | None) -> ScriptReport:
    from kope_tvm.machine import load_target
    from kope_tvm.mlir.script_run import tune_script

    def say(line: str) -> None:
        click.echo(line, err=True)

    with open_memory(memory) as opened:
        return tune_script(file, load_target(target), trials, words, opened, say)


def _spell(output: Path, report: ScriptReport, limits: Limits) -> str:
    times = f"{report.secs * 1e3:.3g} ms, {report.ratio:.1f} times as fast as the default"
    spent = [spell_spent(report.spent, limits)] if report.spent.calls else []
    return "\n".join([*spent, f"{output}: {times}"])
