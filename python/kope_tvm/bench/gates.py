# SPDX-License-Identifier: Apache-2.0
"""Random programs of MetaSchedule's own spaces, right by construction, led through every gate.

`python -m kope_tvm.bench.gates [--candidates 2000] [--seed 1] [--json FILE]` lists the programs of
the quick suite that a gate called wrong, and the share of an ordinary trial's wall time that gates
take. With a FILE that holds a part of the same run, it goes on from there. Exit code 1 where a
right program was refused.
"""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click

from kope_tvm.bench.gates_result import GatesBench, Reference, from_json, spell
from kope_tvm.bench.gates_round import Subject, round_of
from kope_tvm.bench.versions import versions
from kope_tvm.ceiling import Ceiling
from kope_tvm.console import work
from kope_tvm.errors import UsageError
from kope_tvm.gates import load_gates
from kope_tvm.machine import load_target
from kope_tvm.measure import MeasureConfig, Pool
from kope_tvm.memory.location import default_path
from kope_tvm.model import extract_tasks, load_model
from kope_tvm.operators import QUICK_SUITE
from kope_tvm.target import TargetSpec
from kope_tvm.workbench import Workbench, make_task

_ROUND = 16
_LIMIT_SECS = 5.0
"""Of a candidate's run: random programs may be a thousand times as slow as good ones."""
_LOG = logging.getLogger("kope_tvm")


class _Run:
    """One call: it adds to what is on file until there are enough programs."""

    def __init__(
        self,
        bench: GatesBench,
        spec: TargetSpec,
        keep: Callable[[GatesBench], None],
        say: Callable[[str], None],
    ) -> None:
        self.bench = bench
        self._spec, self._keep, self._say = spec, keep, say
        self._used_up: set[str] = set()

    def go(self, operators: Sequence[str], pool: Pool) -> GatesBench:
        """Every operator its part; what one's spaces do not hold, the others make up for."""
        ceiling = Ceiling(pool, self._spec, default_path().parent)
        ceiling.measure(self._say)
        even = math.ceil(self.bench.candidates / len(operators))
        for operator in operators:
            missing = min(even - self._answered(operator), self._missing)
            if missing > 0:
                self._operator(self._subject(operator, pool, ceiling), missing, pool)
        while self._missing > 0 and (left := [o for o in operators if o not in self._used_up]):
            for place, operator in enumerate(left):
                missing = math.ceil(self._missing / (len(left) - place))
                self._operator(self._subject(operator, pool, ceiling), missing, pool)
        return self.bench

    @property
    def _missing(self) -> int:
        return self.bench.candidates - self.bench.answered

    def _answered(self, operator: str) -> int:
        return sum(each.is_answered for each in self.bench.of(operator))

    def _operator(self, subject: Subject, missing: int, pool: Pool) -> None:
        """So many more programs of one operator."""
        operator = subject.operator
        wanted = missing + self._answered(operator)
        while (missing := wanted - self._answered(operator)) > 0:
            done = self.bench.of(operator)
            clocked = self.bench.ordinary - sum(each.cost is not None for each in done)
            size = min(_ROUND, clocked if clocked > 0 else missing)
            began = time.perf_counter()
            found = round_of(subject, pool, done, size, is_ordinary=clocked > 0)
            if not found:
                self._used_up.add(operator)
                return
            secs = time.perf_counter() - began
            self.bench = replace(
                self.bench,
                passages=(*self.bench.passages, *found),
                wall_secs=self.bench.wall_secs + secs,
            )
            self._keep(self.bench)
            self._tell(operator, secs / len(found))

    def _subject(self, operator: str, pool: Pool, ceiling: Ceiling) -> Subject:
        ((name, mod, weight),) = extract_tasks(load_model(operator), self._spec)
        workbench = Workbench(make_task(name, mod, self._spec, weight), seed=self.bench.seed)
        began = time.perf_counter()
        baseline = pool.baseline(workbench.mod)
        reference = Reference(time.perf_counter() - began, baseline.check_secs)
        if operator not in self.bench.references:
            references = {**self.bench.references, operator: reference}
            self.bench = replace(self.bench, references=references)
        subject = Subject(operator, workbench, load_gates(), self.bench.seed, ceiling, self._say)
        subject.raise_ceiling([baseline])
        return subject

    def _tell(self, operator: str, secs: float) -> None:
        refused = len(self.bench.false_refusals)
        self._say(
            f"{self.bench.answered}/{self.bench.candidates}, {refused} refused, "
            f"{secs:.2f} s a program: {operator}"
        )


def run_gates(
    operators: Sequence[str],
    bench: GatesBench,
    spec: TargetSpec,
    *,
    keep: Callable[[GatesBench], None] = lambda bench: None,
    say: Callable[[str], None] = lambda text: None,
) -> GatesBench:
    """The bench with as many programs as it wants, or as the operators' spaces hold.

    `keep` is given what there is after every round.
    """
    with Pool(spec, MeasureConfig(), _LOG) as pool:
        pool.warm_up()
        return _Run(bench, spec, keep, say).go(operators, pool)


def new_bench(candidates: int, seed: int, ordinary: int, spec: TargetSpec) -> GatesBench:
    """A run of which nothing is done yet."""
    command = (
        f"python -m kope_tvm.bench.gates --candidates {candidates} --seed {seed} "
        f"--ordinary {ordinary}"
    )
    date = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    machine: dict[str, Any] = asdict(spec.facts)
    return GatesBench(command, date, seed, candidates, ordinary, versions(), machine, {})


def resumed(file: Path | None, bench: GatesBench) -> GatesBench:
    """What FILE holds of the same run, or the run as given. UsageError where it holds another."""
    if file is None or not file.exists():
        return bench
    try:
        kept = from_json(json.loads(file.read_text(encoding="utf-8")))
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{file}: {error!r}; expected a file that this command wrote") from error
    if (kept.seed, kept.ordinary) != (bench.seed, bench.ordinary):
        raise UsageError(
            f"{file} holds seed {kept.seed}, ordinary {kept.ordinary}; asked for seed "
            f"{bench.seed}, ordinary {bench.ordinary}: name another file"
        )
    return replace(kept, candidates=bench.candidates, command=bench.command)


def write(bench: GatesBench, file: Path) -> None:
    """All at once: a run that is ended in between loses a round, not the file."""
    fresh = file.with_name(f"{file.name}.new")
    fresh.write_text(json.dumps(bench.as_json(), indent=1) + "\n", encoding="utf-8")
    fresh.replace(file)


@click.command()
@click.option("--candidates", type=click.IntRange(min=1), default=2000, show_default=True)
@click.option("--seed", type=click.IntRange(min=1), default=1, show_default=True)
@click.option(
    "--ordinary",
    type=click.IntRange(min=0),
    default=_ROUND,
    show_default=True,
    help="Programs of each operator measured as a tuning run does, then proved.",
)
@click.option("--json", "file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--op", "operators", multiple=True, help="Instead of the quick suite; repeatable.")
@click.option("--target", default="host", show_default=True)
@click.pass_context
def main(
    ctx: click.Context,
    candidates: int,
    seed: int,
    ordinary: int,
    file: Path | None,
    operators: Sequence[str],
    target: str,
) -> None:
    """Lead random right programs through every gate; list what was refused, and the cost."""
    spec = load_target(target)
    spec = replace(spec, limits=replace(spec.limits, run_secs=_LIMIT_SECS))
    with work(as_json=False):
        found = run_gates(
            operators or QUICK_SUITE,
            resumed(file, new_bench(candidates, seed, ordinary, spec)),
            spec,
            keep=lambda bench: write(bench, file) if file else None,
            say=lambda text: click.echo(text, err=True),
        )
    click.echo(spell(found))
    ctx.exit(1 if found.false_refusals else 0)


if __name__ == "__main__":
    main()
