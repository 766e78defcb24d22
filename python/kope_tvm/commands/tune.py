# SPDX-License-Identifier: Apache-2.0
"""`kope tune`: measure schedules for a model, resume, remember."""

from __future__ import annotations

import re
import shlex
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kope_tvm.chat.budget import Limits
from kope_tvm.chat.open import check_dialogue
from kope_tvm.config import load_endpoint, without_credentials
from kope_tvm.console import INTERRUPTED, json_option, show, table, work
from kope_tvm.errors import UsageError
from kope_tvm.model_options import PROPOSERS, model_options
from kope_tvm.progress import progress_on, spell_secs

if TYPE_CHECKING:
    from kope_tvm.chat.dialogue import Spent
    from kope_tvm.report import TaskReport, TuneReport


@click.command("tune", short_help="Tune a model for a machine.")
@click.argument("model")
@click.option("--target", required=True, metavar="NAME", help="A known machine or a TOML file.")
@click.option("--trials", type=click.IntRange(min=1), default=256, show_default=True)
@click.option("--work-dir", type=click.Path(path_type=Path), help="Default: kope-work/MODEL-NAME.")
@model_options
@click.option("--memory", metavar="URL", help="A SQLAlchemy URL or a file.")
@click.option("--dim", "dims", multiple=True, metavar="NAME=SIZE", help="Bind a dynamic dimension.")
@click.option("--seed", type=click.IntRange(min=0))
@click.option(
    "--rewind",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Spend the last N trials undoing single decisions of the best, to see what each is worth.",
)
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
    max_calls: int | None,
    exchanges: Path | None,
    seed: int | None,
    rewind: int,
    as_json: bool,
) -> None:
    """Tune MODEL: an .onnx file, a TVMScript .py or .json, or op:NAME:k=v,..."""
    limits = Limits(max_tokens, max_usd, max_calls)
    options: dict[str, Any] = {
        "dims": parse_dims(dims),
        "seed": seed,
        "memory": memory,
        "proposer": proposer,
        "exchanges": exchanges,
        "rewind": rewind,
        **vars(limits),
    }
    _check_proposer(proposer, limits, exchanges)
    folder = work_dir or default_work_dir(model, target)
    try:
        with work(as_json=as_json):
            report = _tune(model, target, folder, trials, options, quiet=as_json)
    except KeyboardInterrupt:
        click.echo(_stopped(folder), err=True)
        ctx.exit(INTERRUPTED)
    show(report, spell_report(report, limits), as_json=as_json)


def _stopped(folder: Path) -> str:
    again = without_credentials(shlex.join(["kope", *sys.argv[1:]]))
    return f"stopped; everything measured is kept in {folder}; the same command goes on: {again}"


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


def spell_report(report: TuneReport, limits: Limits | None = None) -> str:
    """What a run found, as a table and a line or two."""
    rows = [_row(task) for task in report.tasks]
    headers = ("TASK", "CALLS", "TRIALS", "FAILED", "UNTUNED", "BEST", "SPEEDUP", "BY")
    summary = (
        f"{report.trials} trials in {report.wall_secs:.1f} s, {report.failed} failed; "
        f"work_dir {report.work_dir}"
    )
    spent = [spell_spent(report.spent, limits or Limits())] if report.spent.calls else []
    refused = [text] if (text := _spell_refusals(report.tasks)) else []
    gains = [f"speedup: {report.gains}"] if report.tasks else []
    stays = [text for task in report.tasks if (text := _spell_untuned(task))]
    notes = [f"{task.name}: {task.note}" for task in report.tasks if task.note]
    told = [*report.notices, *spent, *refused, *stays, *notes, *gains]
    return "\n".join([table(headers, rows), *told, summary])


def _spell_untuned(task: TaskReport) -> str:
    """Why the untuned function stays though something was found; empty where not."""
    if task.accepted or not task.gain:
        return ""
    what = f"{task.gain:.2f}x beside it, {task.needed:.2f}x needed"
    doubts = ("not proved", not task.correct), ("suspicious", task.suspicious)
    why = [text for text, is_so in doubts if is_so]
    return f"{task.name}: the untuned function stays: {', '.join([what, *why])}"


def _spell_refusals(tasks: Sequence[TaskReport]) -> str:
    """How many proposals came to nothing and why, e.g. `refused: 3 E_STEP, 1 E_NUMERICS`."""
    count: Counter[str] = Counter()
    for task in tasks:
        count.update(dict(task.refusals))
    ranked = sorted(count.items(), key=lambda pair: (-pair[1], pair[0]))
    return "refused: " + ", ".join(f"{num} {code}" for code, num in ranked) if ranked else ""


def spell_spent(spent: Spent, limits: Limits) -> str:
    """What a model cost, e.g. `model: 3 calls, 6000+900 tokens, $0.0321 (cap $1)`."""
    calls = f"model: {spent.calls} call{'s' * (spent.calls != 1)}"
    parts = [calls, f"{spent.prompt_tokens}+{spent.completion_tokens} tokens"]
    if spent.usd:
        parts.append(f"${spent.usd:.4f}")
    given = (
        (limits.max_calls, f"{limits.max_calls} calls"),
        (limits.max_tokens, f"{limits.max_tokens} tokens"),
        (limits.max_usd, f"${limits.max_usd:g}" if limits.max_usd is not None else ""),
    )
    caps = [text for most, text in given if most is not None]
    return ", ".join(parts) + (f" (cap {', '.join(caps)})" if caps else "")


def _tune(
    model: str, target: str, folder: Path, trials: int, options: dict[str, Any], *, quiet: bool
) -> TuneReport:
    from kope_tvm.tuning import tune

    return tune(model, target, folder, trials, progress=progress_on(quiet=quiet), **options)


def _check_proposer(proposer: str, limits: Limits, exchanges: Path | None) -> None:
    """Find a wrong call before TVM is loaded."""
    from kope_tvm import registry
    from kope_tvm.memory.location import default_path

    known = tuple(dict.fromkeys((*PROPOSERS, *registry.names("proposers"))))
    if proposer not in known:
        raise UsageError(
            f"--proposer {proposer!r} is not known; known proposers: {', '.join(known)}"
        )
    check_dialogue(proposer, load_endpoint(default_path().parent), limits, exchanges)


def _row(task: TaskReport) -> tuple[object, ...]:
    return (
        task.name,
        f"{task.weight:g}",
        task.trials,
        task.failed,
        spell_secs(task.baseline_secs),
        spell_secs(task.best_secs),
        f"{task.speedup:.2f}x",
        task.best_space if task.accepted else "untuned",
    )
