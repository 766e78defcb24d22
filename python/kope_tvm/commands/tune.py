# SPDX-License-Identifier: Apache-2.0
"""`kope tune`: measure schedules for a model, resume, remember."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kope_tvm.config import without_credentials
from kope_tvm.console import INTERRUPTED, json_option, show, table, work
from kope_tvm.errors import UsageError
from kope_tvm.progress import progress_on, spell_secs

if TYPE_CHECKING:
    from kope_tvm.report import TaskReport, TuneReport


@click.command("tune", short_help="Tune a model for a machine.")
@click.argument("model")
@click.option("--target", required=True, metavar="NAME", help="A known machine or a TOML file.")
@click.option("--trials", type=click.IntRange(min=1), default=256, show_default=True)
@click.option("--work-dir", type=click.Path(path_type=Path), help="Default: kope-work/MODEL-NAME.")
@click.option("--proposer", default="auto", show_default=True, metavar="auto|experience|chat")
@click.option("--memory", metavar="URL", help="A SQLAlchemy URL or a file.")
@click.option("--dim", "dims", multiple=True, metavar="NAME=SIZE", help="Bind a dynamic dimension.")
@click.option("--max-tokens", type=click.IntRange(min=0), help="Most tokens of a chat model.")
@click.option("--max-usd", type=click.FloatRange(min=0), help="Most money for a chat model.")
@click.option("--seed", type=click.IntRange(min=0))
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    model: str,
    target: str,
    trials: int,
    work_dir: Path | None,
    proposer: str,
    memory: str | None,
    dims: Sequence[str],
    max_tokens: int | None,
    max_usd: float | None,
    seed: int | None,
    as_json: bool,
) -> None:
    """Tune MODEL: an .onnx file, a TVMScript .py or .json, or op:NAME:k=v,..."""
    limits = {"max_tokens": max_tokens, "max_usd": max_usd}
    options = {"dims": parse_dims(dims), "seed": seed, "memory": memory, "proposer": proposer}
    options |= _model_limits(proposer, limits)
    folder = work_dir or default_work_dir(model, target)
    try:
        with work(as_json=as_json):
            report = _tune(model, target, folder, trials, options, quiet=as_json)
    except KeyboardInterrupt:
        again = without_credentials(shlex.join(["kope", *sys.argv[1:]]))
        text = (
            f"stopped; everything measured is kept in {folder}; the same command goes on: {again}"
        )
        click.echo(text, err=True)
        ctx.exit(INTERRUPTED)
    show(report, spell_report(report), as_json=as_json)


def parse_dims(given: Sequence[str]) -> dict[str, int]:
    """Read `NAME=SIZE` options; raises UsageError for anything else."""
    dims: dict[str, int] = {}
    for each in given:
        name, _, size = each.partition("=")
        if not name or not size.isdigit() or int(size) == 0:
            raise UsageError(f"--dim {each!r}: expected NAME=SIZE, e.g. --dim batch=1")
        dims[name] = int(size)
    return dims


def default_work_dir(model: str, target: str) -> Path:
    """A folder for this model and machine under `kope-work`."""
    stem = model if model.startswith("op:") else Path(model).stem
    name = re.sub(r"[^A-Za-z0-9_.=-]+", "-", f"{stem}-{Path(target).stem}").strip("-.")
    return Path("kope-work") / name


def spell_report(report: TuneReport) -> str:
    """What a run found, as a table and a line."""
    rows = [_row(task) for task in report.tasks]
    headers = ("TASK", "CALLS", "TRIALS", "FAILED", "UNTUNED", "BEST", "SPEEDUP", "BY")
    summary = (
        f"{report.trials} trials in {report.wall_secs:.1f} s, {report.failed} failed; "
        f"work_dir {report.work_dir}"
    )
    return "\n".join([table(headers, rows), *report.notices, summary])


def _tune(
    model: str, target: str, folder: Path, trials: int, options: dict[str, Any], *, quiet: bool
) -> TuneReport:
    _check_proposer(options["proposer"])
    from kope_tvm.tuning import tune

    return tune(model, target, folder, trials, progress=progress_on(quiet=quiet), **options)


def _check_proposer(proposer: str) -> None:
    from kope_tvm import registry

    known = registry.names("proposers")
    if proposer == "auto" or proposer in known:
        return
    listed = ", ".join(("auto", *known))
    if proposer == "chat":
        raise UsageError(
            "--proposer chat: no chat endpoint support is installed in this version; "
            f"known proposers: {listed}"
        )
    raise UsageError(f"--proposer {proposer!r} is not known; known proposers: {listed}")


def _model_limits(proposer: str, limits: dict[str, Any]) -> dict[str, Any]:
    """Without a chat proposer nothing is spent, so every limit holds."""
    given = {name: value for name, value in limits.items() if value is not None}
    if not given or proposer not in {"auto", "chat"}:
        return {}
    from kope_tvm import registry

    return given if "chat" in registry.names("proposers") else {}


def _row(task: TaskReport) -> tuple[object, ...]:
    return (
        task.name,
        f"{task.weight:g}",
        task.trials,
        task.failed,
        spell_secs(task.baseline_secs),
        spell_secs(task.best_secs),
        f"{task.speedup:.2f}x",
        task.best_space or "untuned",
    )
