# SPDX-License-Identifier: Apache-2.0
"""Ranks schedules of several operators three times over and prints how far the orders agree.

`python -m kope_tvm.device.simulate.opinions [TARGET] [SCHEDULES_EACH]`
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from kope_tvm.device.program.link import link
from kope_tvm.device.simulate.counted import MARK
from kope_tvm.device.simulate.opinions.mca import mca_cycles
from kope_tvm.device.simulate.opinions.ranks import Agreement, spearman
from kope_tvm.device.simulate.opinions.rvsim import rvsim_cycles
from kope_tvm.device.simulate.opinions.schedules import FAMILIES, Scheduled, scheduled
from kope_tvm.device.simulate.program import run_linked
from kope_tvm.errors import KopeError
from kope_tvm.machine import load_target
from kope_tvm.target import TargetSpec


@dataclass(frozen=True)
class Opinions:
    """Cycles of one schedule by three models."""

    schedule: Scheduled
    simulated: float
    mca: float
    rvsim: float


def main(arguments: Sequence[str]) -> None:
    """Prints one table of schedules and one of rank correlations."""
    target, num_each = (*arguments, *("spacemit-k1", "8")[len(arguments) :])
    spec = load_target(target)
    # On one core: the other two models know no parallel loop.
    spec = replace(spec, facts=replace(spec.facts, num_cores=1))
    console, found = Console(), []
    for schedule in scheduled(spec, int(num_each)):
        try:
            found.append(_asked(schedule, spec))
            console.print(_line(found[-1]), highlight=False, soft_wrap=True)
        except KopeError as error:
            name = f"{schedule.family}: {schedule.label}"
            console.print(f"left out, {name}: {error}", soft_wrap=True)
    console.print(_table(target, found))


def agreements(found: Sequence[Opinions]) -> Iterator[Agreement]:
    """One for each operator, then one for all together."""
    for family in (*(name for name, _, _ in FAMILIES), "all"):
        rows = [each for each in found if family in (each.schedule.family, "all")]
        simulated = [each.simulated for each in rows]
        yield Agreement(
            family,
            len(rows),
            spearman(simulated, [each.mca for each in rows]),
            spearman(simulated, [each.rvsim for each in rows]),
        )


def _asked(schedule: Scheduled, spec: TargetSpec) -> Opinions:
    with tempfile.TemporaryDirectory(prefix="kope-") as scratch:
        linux, bare = Path(scratch) / "linux", Path(scratch) / "bare"
        linux.mkdir()
        bare.mkdir()
        made, profile = link(schedule.program, linux), linux / "profile"
        region = run_linked(made, spec, linux, profile).regions[-1]
        on_bare = link(schedule.program, bare, is_bare=True)
        rvsim = rvsim_cycles(on_bare, spec.facts.vlen_bits)
        return Opinions(schedule, float(region.cycles), mca_cycles(made, profile), rvsim)


def _line(opinions: Opinions) -> str:
    schedule = opinions.schedule
    cycles = f"{opinions.simulated:>10.0f} {opinions.mca:>10.0f} {opinions.rvsim:>10.0f}"
    return f"{cycles}  {schedule.family}: {schedule.label}"


def _table(target: str, found: Sequence[Opinions]) -> Table:
    table = Table(title=f"{target}, {MARK}: Spearman's rank correlation with the simulated cycles")
    for column in ("operator", "schedules", "llvm-mca", "rvsim", ""):
        table.add_column(column, justify="left" if column in ("operator", "") else "right")
    for each in agreements(found):
        numbers = (str(each.num_schedules), f"{each.mca:.2f}", f"{each.rvsim:.2f}")
        table.add_row(each.family, *numbers, each.word)
    return table


if __name__ == "__main__":
    main(sys.argv[1:])
