# SPDX-License-Identifier: Apache-2.0
"""The suite `riscv`: kope, scalar and vectorised untuned code, and stock MetaSchedule, in cycles.

`kope bench --suite riscv`, or `python -m kope_tvm.bench.riscv` for its options. Everybody runs on
one core of the same simulated machine. What was made is kept in `--scratch`, a file a contender and
operator; a broken-off run goes on there.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from kope_tvm.bench.riscv_machine import SCALAR_FEATURES, Bench, as_shipped, compiled, one_core
from kope_tvm.bench.riscv_result import (
    AUTOVEC,
    CONTENDERS,
    KOPE,
    SCALAR,
    STOCK,
    Entry,
    Operator,
    RiscvBench,
    table,
)
from kope_tvm.bench.riscv_search import Found, search
from kope_tvm.bench.versions import versions
from kope_tvm.device.simulate.calibration import mark_of
from kope_tvm.target import TargetSpec

TARGET = "spacemit-k1"
SUITE = (
    "op:matmul:m=64,n=64,k=64,dtype=float32",
    "op:matmul:m=81,n=41,k=19,dtype=float32",
    "op:matmul:m=1,n=512,k=512,dtype=float32",
    "op:matmul_int8:m=64,n=64,k=64,dtype=int8",
    "op:matmul_nbits:m=1,n=256,k=256,dtype=float32",
    "op:conv2d:n=1,ci=16,h=16,w=16,co=16,kernel=3,stride=1,pad=1,dtype=float32",
    "op:depthwise_conv2d:n=1,ci=16,h=28,w=28,kernel=3,stride=2,pad=1,dtype=float32",
    "op:softmax:m=14,n=185,dtype=float32",
    "op:layernorm:m=64,n=256,dtype=float32",
    "op:reduce_sum:m=134,n=99,dtype=float32",
    "op:relu:m=134,n=99,dtype=float32",
    "op:log:m=134,n=99,dtype=float32",
    "op:bias_add:m=134,n=99,dtype=float32",
)
"""The last four are [14, 23, 67, 99] scaled down to [1, 2, 67, 99]."""
_COLUMNS = 190


class _Bench:
    """The entries in one folder, each made once."""

    def __init__(
        self, folder: Path, spec: TargetSpec, trials: int, seed: int, say: Callable[[str], None]
    ) -> None:
        self._folder = folder
        self._spec = spec
        self._trials = trials
        self._seed = seed
        self._say = say

    def operator(self, spec: str) -> Operator:
        """Every contender on one operator."""
        bench = Bench(spec, self._spec)
        return Operator(spec, {name: self.entry(name, bench) for name in CONTENDERS})

    def entry(self, contender: str, bench: Bench) -> Entry:
        """Made now, or before the run was broken off."""
        stem = bench.bound.spec.replace(":", "_").replace(",", "_").replace("=", "")
        file = self._folder / contender.replace(" ", "-") / f"{stem}.json"
        if file.is_file():
            return _entry_of(json.loads(file.read_text(encoding="utf-8")))
        began = time.perf_counter()
        made = self._made(contender, bench)
        self._say(
            f"{bench.bound.spec} {contender}: {made.cycles:,} cycles, "
            f"{time.perf_counter() - began:.0f} s"
        )
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(asdict(made)), encoding="utf-8")
        return made

    def _made(self, contender: str, bench: Bench) -> Entry:
        machine = self._machine(contender)
        with nullcontext() if contender == KOPE else as_shipped():
            if contender in (SCALAR, AUTOVEC):
                return _untuned(bench, machine)
            strategy = KOPE if contender == KOPE else "evolutionary"
            began = time.perf_counter()
            found = search(bench, machine, strategy, self._trials, self._seed)
        return _searched(bench, found, time.perf_counter() - began)

    def _machine(self, contender: str) -> Mapping[str, object]:
        machine = self._spec.tvm_target
        if contender == SCALAR:
            return {**machine, "mcpu": "generic-rv64", "mattr": list(SCALAR_FEATURES)}
        if contender == STOCK[0]:
            # what TVM's own tag of the board says, less what the emulator lacks
            return {**machine, "mcpu": "spacemit-x60", "mattr": ["-zicond"]}
        return machine


def _untuned(bench: Bench, machine: Mapping[str, object]) -> Entry:
    made = compiled(bench.mod, machine)
    ran = bench.run(made)
    return Entry(ran.cycles, ran.wrong, bench.at_lengths(made), ran.counters)


def _searched(bench: Bench, found: Found, secs: float) -> Entry:
    lengths = bench.at_lengths(found.object_bytes) if found.object_bytes else {}
    return Entry(
        cycles=found.cycles,
        wrong="" if found.object_bytes else "; ".join(found.reasons[:2]) or "nothing was measured",
        lengths=lengths,
        counters=found.counters,
        trials=found.trials,
        failed=found.failed,
        num_wrong=found.wrong,
        tune_secs=secs,
    )


def _entry_of(plain: dict[str, Any]) -> Entry:
    lengths = {int(vlen): word for vlen, word in plain.pop("lengths").items()}
    return Entry(**plain, lengths=lengths)


def run_riscv(
    operators: Sequence[str] = SUITE,
    *,
    trials: int = 32,
    target: str = TARGET,
    seed: int = 1,
    scratch: Path | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> RiscvBench:
    """Run the suite; without `scratch` what was made is forgotten once the run is complete."""
    folder = scratch or Path(tempfile.gettempdir()) / f"kope-bench-riscv-{target}-{trials}-{seed}"
    folder.mkdir(parents=True, exist_ok=True)
    spec = one_core(target)
    made = _Bench(folder, spec, trials, seed, say)
    found = tuple(made.operator(spec) for spec in operators)
    if scratch is None:
        shutil.rmtree(folder)
    return RiscvBench(target, trials, versions(), found, mark_of(spec))


def report(found: RiscvBench, json_file: Path | None) -> None:
    """Print the table, and keep the run where asked."""
    if json_file is not None:
        json_file.write_text(json.dumps(found.as_json(), indent=1) + "\n", encoding="utf-8")
    console = Console()
    console.width = console.width if console.is_terminal else _COLUMNS
    console.print(table(found))


def say(text: str) -> None:
    """Tell what was made, beside the figures."""
    click.echo(text, err=True)


@click.command()
@click.option("--op", "operators", multiple=True, help="Instead of the suite; repeatable.")
@click.option("--contender", type=click.Choice(CONTENDERS), help="Make this one only, no table.")
@click.option("--trials", type=click.IntRange(min=1), default=32, show_default=True)
@click.option("--target", default=TARGET, show_default=True)
@click.option("--seed", type=click.IntRange(min=1), default=1, show_default=True)
@click.option("--scratch", type=click.Path(path_type=Path, file_okay=False), required=True)
@click.option("--json", "json_file", type=click.Path(path_type=Path, dir_okay=False))
def main(
    operators: Sequence[str],
    contender: str | None,
    trials: int,
    target: str,
    seed: int,
    scratch: Path,
    json_file: Path | None,
) -> None:
    """Compare on the simulated machine; what was made is kept in the scratch folder."""
    specs = operators or SUITE
    if contender is None:
        run = run_riscv(specs, trials=trials, target=target, seed=seed, scratch=scratch, say=say)
        report(run, json_file)
        return
    scratch.mkdir(parents=True, exist_ok=True)
    spec = one_core(target)
    for each in specs:
        _Bench(scratch, spec, trials, seed, say).entry(contender, Bench(each, spec))


if __name__ == "__main__":
    sys.exit(main())
