# SPDX-License-Identifier: Apache-2.0
"""What a model adds: `sketch` alone, kope without a model, and with one, at equal trials.

`python -m kope_tvm.bench.study OUT [SPEC ...] [--trials N] [--exchanges FOLDER]` asks the endpoint
of the environment, or answers from exchanges stored by an earlier study, one file an operator.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import click

from kope_tvm.bench.contender import in_turns
from kope_tvm.bench.run import settled_module, versions
from kope_tvm.bench.study_result import Case, Study, spell
from kope_tvm.bench.talk import talk_of
from kope_tvm.chat.exchanges import EXCHANGES, read_exchanges
from kope_tvm.config import load_endpoint
from kope_tvm.console import work
from kope_tvm.machine import load_target
from kope_tvm.memory.location import default_path
from kope_tvm.model import extract_tasks, load_model
from kope_tvm.progress import progress_on
from kope_tvm.tuning import tune
from kope_tvm.workbench import Workbench, make_task

OPERATORS = (
    "op:matmul:m=81,n=41,k=19",
    "op:matmul:m=540,n=516,k=332",
    "op:softmax:m=512,n=1024",
    "op:layernorm:m=512,n=768",
    "op:depthwise_conv2d:n=1,ci=32,h=112,w=112,kernel=3,stride=2,pad=1",
    "op:matmul_nbits:m=1,n=2048,k=2048",
    "op:attention:h=8,m=128,n=128,d=64",
)


def study_operator(
    spec: str, folder: Path, *, target: str, trials: int, seed: int, stored: Path | None
) -> Case:
    """Tune one operator three times with a new memory each, then time the three in turns."""
    machine = load_target(target)
    runs: Mapping[str, str] = {
        "sketch": "sketch",
        "without a model": "experience",
        "with a model": "chat" if stored is None else "replay",
    }
    ((name, mod, weight),) = extract_tasks(load_model(spec), machine)
    bench = Workbench(make_task(name, mod, machine, weight))
    files: dict[str, Path] = {}
    for run, proposer in runs.items():
        work_dir = folder / proposer
        tune(
            spec,
            machine,
            work_dir,
            trials,
            proposer=proposer,
            memory=str(folder / f"{proposer}.sqlite"),
            seed=seed,
            exchanges=stored if proposer == "replay" else None,
            progress=progress_on(quiet=False),
        )
        files[run] = settled_module(bench, work_dir)
    record = stored or folder / "chat" / EXCHANGES
    talk = talk_of(read_exchanges(record) if record.is_file() else ())
    return Case(spec, in_turns(files, target, machine.facts.num_cores), talk)


@click.command()
@click.argument("out", type=click.Path(path_type=Path))
@click.argument("specs", nargs=-1)
@click.option("--trials", type=click.IntRange(min=1), default=16, show_default=True)
@click.option("--target", default="host", show_default=True)
@click.option("--seed", type=click.IntRange(min=1), default=1, show_default=True)
@click.option("--exchanges", type=click.Path(path_type=Path, exists=True, file_okay=False))
def main(
    out: Path,
    specs: Sequence[str],
    trials: int,
    target: str,
    seed: int,
    exchanges: Path | None,
) -> None:
    """Study SPECS, the usual operators where none is named; OUT keeps the runs and `study.json`."""
    cases = []
    model = "replayed" if exchanges else load_endpoint(default_path().parent).model
    for spec in specs or OPERATORS:
        stem = file_stem(spec)
        stored = exchanges / f"{stem}.jsonl" if exchanges else None
        with work(as_json=False):
            cases.append(
                study_operator(
                    spec, out / stem, target=target, trials=trials, seed=seed, stored=stored
                )
            )
        study = Study(model, trials, seed, target, versions(), tuple(cases))
        text = json.dumps(asdict(study) | {"summary": study.summary}, indent=1)
        (out / "study.json").write_text(text + "\n", encoding="utf-8")
        click.echo(spell(study))


def file_stem(spec: str) -> str:
    """A file name for an operator spec."""
    return re.sub(r"[^A-Za-z0-9_=]+", "-", spec.removeprefix("op:"))


if __name__ == "__main__":
    main()
