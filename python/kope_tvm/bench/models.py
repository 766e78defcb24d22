# SPDX-License-Identifier: Apache-2.0
"""The suite `models`: whole models by kope, TVM untuned, stock MetaSchedule and ONNX Runtime.

What a search costs minutes for is kept in a folder a model, so that a broken-off run goes on there
and a complete one only times anew. `python -m kope_tvm.bench.models --only metaschedule` makes the
peer's side alone.
"""

from __future__ import annotations

import json
import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from functools import cached_property
from pathlib import Path

import click
from rich.console import Console

from kope_tvm.bench.contender import in_turns
from kope_tvm.bench.models_block import decode_block
from kope_tvm.bench.models_result import (
    KOPE,
    ONNXRUNTIME,
    PEERS,
    STOCK,
    UNTUNED,
    BenchedModel,
    ModelsBench,
    Tuned,
    table,
)
from kope_tvm.bench.models_stock import num_measured, tune_stock_model
from kope_tvm.bench.models_zoo import ZOO, ZooModel
from kope_tvm.bench.versions import versions
from kope_tvm.compilation import compile_model
from kope_tvm.errors import UsageError
from kope_tvm.machine import load_target
from kope_tvm.model import Model, load_model
from kope_tvm.model_gate import proved_model
from kope_tvm.target import TargetSpec
from kope_tvm.tuning import tune

_PIPE_COLUMNS = 140


@dataclass(frozen=True)
class Search:
    """What every search of a run has in common."""

    target: TargetSpec
    trials: int
    seed: int
    say: Callable[[str], None]


class Bench:
    """One model and the folder that keeps what was made of it."""

    def __init__(self, zoo: ZooModel, folder: Path, search: Search) -> None:
        self._zoo = zoo
        self._folder = folder
        self._search = search
        folder.mkdir(parents=True, exist_ok=True)

    def benched(self, against: Sequence[str]) -> BenchedModel:
        """Every contender searched, proved where it is kope's, and timed in turns."""
        files, tuned = {KOPE: self._folder / "kope.so"}, {KOPE: self.kope()}
        check, is_right = self._proved(files[KOPE])
        if UNTUNED in against:
            files[UNTUNED] = self._untuned()
        if STOCK in against:
            tuned[STOCK] = self.stock()
            files[STOCK] = self._folder / "stock.so"
        if ONNXRUNTIME in against:
            files[ONNXRUNTIME] = self._onnx()
        self._search.say(f"{self._zoo.name}: {', '.join(files)} take turns")
        target = self._search.target
        run_secs = in_turns(files, target.name, target.facts.num_cores)
        zoo = self._zoo
        return BenchedModel(zoo.name, zoo.kind, zoo.dims, check, is_right, tuned, run_secs)

    def kope(self) -> Tuned:
        """Kope's search, from no experience; it goes on where it was broken off."""
        return self._searched(KOPE, self._tune_kope)

    def stock(self) -> Tuned:
        """Stock's search and build."""
        found = self._searched(STOCK, self._tune_stock)
        file = self._folder / "stock.so"
        if not file.is_file():
            compile_model(self._model, self._search.target, self._folder / STOCK).save(file)
        return found

    def _searched(self, name: str, search: Callable[[], Tuned]) -> Tuned:
        file = self._folder / f"{name}.json"
        if not file.is_file():
            self._search.say(f"{self._zoo.name}: {name} searches, {self._search.trials} trials")
            file.write_text(json.dumps(asdict(search())), encoding="utf-8")
        return Tuned(**json.loads(file.read_text(encoding="utf-8")))

    def _tune_kope(self) -> Tuned:
        search = self._search
        report = tune(
            self._path,
            search.target,
            self._folder / KOPE,
            search.trials,
            proposer="experience",
            memory=str(self._folder / "memory.sqlite"),
            seed=search.seed,
            dims=self._zoo.dims,
        )
        trials = sum(task.trials for task in report.tasks)
        failed = sum(task.failed for task in report.tasks)
        return Tuned(trials, failed, report.wall_secs, str(report.gains))

    def _tune_stock(self) -> Tuned:
        search, work_dir = self._search, self._folder / STOCK
        began = time.perf_counter()
        tune_stock_model(
            self._path, self._zoo.dims, search.target.name, search.trials, search.seed, work_dir
        )
        return Tuned(num_measured(work_dir), 0, time.perf_counter() - began)

    def _proved(self, file: Path) -> tuple[str, bool]:
        """Kope's build, made and proved anew: what compiles a search is not part of it."""
        proved = proved_model(self._model, self._search.target, self._folder / KOPE)
        proved.artifact.save(file)
        return f"{proved.artifact.coverage}; {proved.check}", proved.check.ok

    def _untuned(self) -> Path:
        file = self._folder / "untuned.so"
        if not file.is_file():
            compile_model(self._model, self._search.target).save(file)
        return file

    def _onnx(self) -> Path:
        file = self._folder / "bound.onnx"
        if not file.is_file():
            assert self._model.onnx is not None
            file.write_bytes(self._model.onnx)
        return file

    @cached_property
    def _path(self) -> Path:
        if self._zoo.file:
            return self._zoo.path()
        made = self._folder / "made.onnx"
        if not made.is_file():
            made.write_bytes(decode_block())
        return made

    @cached_property
    def _model(self) -> Model:
        return load_model(self._path, dims=self._zoo.dims)


def benches(
    names: Sequence[str], target: str, trials: int, seed: int, say: Callable[[str], None]
) -> list[Bench]:
    """The models of that name, of none all; raises UsageError for one that is not there."""
    known = [zoo.name for zoo in ZOO]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise UsageError(f"unknown part {unknown[0]!r} of suite models; parts: {', '.join(known)}")
    folder = Path(tempfile.gettempdir()) / f"kope-bench-models-{target}-{trials}-{seed}"
    say(f"what is made is kept in {folder}")
    search = Search(load_target(target), trials, seed, say)
    chosen = [zoo for zoo in ZOO if not names or zoo.name in names]
    return [Bench(zoo, folder / zoo.name, search) for zoo in chosen]


def run_models(
    names: Sequence[str],
    against: Sequence[str] = PEERS,
    *,
    target: str = "host",
    trials: int = 300,
    seed: int = 1,
    say: Callable[[str], None] = lambda text: None,
) -> ModelsBench:
    """Run the suite; raises UsageError for an unknown model or peer."""
    unknown = [peer for peer in against if peer not in PEERS]
    if unknown:
        raise UsageError(f"unknown peer {unknown[0]!r}; peers: {', '.join(PEERS)}")
    found = tuple(each.benched(against) for each in benches(names, target, trials, seed, say))
    machine = asdict(load_target(target).facts)
    return ModelsBench(_command(), _now(), versions(), machine, trials, found)


def _command() -> str:
    return shlex.join(["kope", *sys.argv[1:]])


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def report(found: ModelsBench, json_file: Path | None) -> None:
    """Print the table, and keep the run where asked."""
    if json_file is not None:
        json_file.write_text(json.dumps(found.as_json(), indent=1) + "\n", encoding="utf-8")
    console = Console()
    console.width = console.width if console.is_terminal else _PIPE_COLUMNS
    console.print(table(found))


@click.command()
@click.option("--only", type=click.Choice((KOPE, STOCK)), required=True)
@click.option("--part", "names", multiple=True, help="A model; of none all.")
@click.option("--trials", type=click.IntRange(min=1), default=300, show_default=True)
@click.option("--target", default="host", show_default=True)
@click.option("--seed", type=click.IntRange(min=1), default=1, show_default=True)
def main(only: str, names: Sequence[str], trials: int, target: str, seed: int) -> None:
    """Make one contender's searches, to be timed by `kope bench --suite models` later."""
    for each in benches(names, target, trials, seed, lambda text: click.echo(text, err=True)):
        made = each.kope() if only == KOPE else each.stock()
        click.echo(f"{made}", err=True)


if __name__ == "__main__":
    main()
