# SPDX-License-Identifier: Apache-2.0
"""The suite `memory`: how a memory fares as it grows, and what it is worth to a new operator.

`kope bench --suite memory`, or `python -m kope_tvm.bench.memory` for its options: fewer sizes, a
part alone, other operators. What was made is kept in `--scratch`; a broken-off run goes on there.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from kope_tvm.bench.memory_growth import SIZES, Growth, growth_curve
from kope_tvm.bench.memory_transfer import EARLY_TRIALS, Transfers, leave_one_out
from kope_tvm.bench.versions import versions
from kope_tvm.operators import QUICK_SUITE

PARTS = ("growth", "transfer")
_COLUMNS = 160
_MIB = 1 << 20


@dataclass(frozen=True)
class MemoryBench:
    """What a run found; a part that was not asked for is empty."""

    growth: tuple[Growth, ...]
    transfers: Transfers
    wall_secs: float

    def as_json(self) -> dict[str, Any]:
        """Everything, with the figures a reader wants."""
        operators = [
            {**asdict(one), "trials_to_reach": one.trials_to_reach}
            for one in self.transfers.operators
        ]
        return {
            "suite": "memory",
            "versions": versions(),
            "wall_secs": self.wall_secs,
            "growth": [asdict(one) for one in self.growth],
            "transfer": {
                "operators": operators,
                "early_share": self.transfers.early_share,
                "geomean": self.transfers.geomean,
                "worst": self.transfers.worst,
            },
        }


def run_memory(
    parts: Sequence[str] = PARTS,
    *,
    sizes: Sequence[int] = SIZES,
    operators: Sequence[str] = QUICK_SUITE,
    trials: int = 32,
    target: str = "host",
    seed: int = 1,
    scratch: Path | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> MemoryBench:
    """Run some parts; `scratch` is kept for the next run."""
    folder = scratch or Path(tempfile.gettempdir()) / "kope-bench-memory"
    began = time.perf_counter()
    growth = growth_curve(sizes, folder / "growth", say) if "growth" in parts else ()
    transfers = Transfers(())
    if "transfer" in parts:
        transfers = leave_one_out(
            folder / "transfer", operators, target=target, trials=trials, seed=seed, say=say
        )
    return MemoryBench(growth, transfers, time.perf_counter() - began)


def report(found: MemoryBench, json_file: Path | None) -> None:
    """Print the tables, and keep the run where asked."""
    if json_file is not None:
        json_file.write_text(json.dumps(found.as_json(), indent=1) + "\n", encoding="utf-8")
    console = Console()
    console.width = console.width if console.is_terminal else _COLUMNS
    if found.growth:
        console.print(_growth_table(found.growth))
    if found.transfers.operators:
        console.print(_transfer_table(found.transfers))
    console.print(f"{found.wall_secs:.0f} s")


def _growth_table(curve: Sequence[Growth]) -> Table:
    shown = Table(title="a memory as it grows")
    for name in (
        "edges", "MiB", "open s (CPU)", "recall p50 ms", "p99 ms (CPU)", "after news ms",
        "resident B/edge", "records/s (of CPU)", "in rounds of 16",
    ):  # fmt: skip
        shown.add_column(name, justify="right")
    for one in curve:
        shown.add_row(
            f"{one.edges:,}",
            f"{one.file_bytes / _MIB:,.0f}",
            f"{one.open_secs:.2f} ({one.open_cpu_secs:.2f})",
            f"{one.recall_p50_secs * 1e3:.1f}",
            f"{one.recall_p99_secs * 1e3:.1f} ({one.recall_p99_cpu_secs * 1e3:.1f})",
            f"{one.after_news_secs * 1e3:.1f}",
            f"{one.resident_bytes_per_edge:,.0f}",
            f"{one.records_per_sec:,.0f} ({one.records_per_cpu_sec:,.0f})",
            f"{one.round_records_per_sec:,.0f} ({one.round_records_per_cpu_sec:,.0f})",
        )
    return shown


def _transfer_table(transfers: Transfers) -> Table:
    shown = Table(title="speed over the whole cold run, by trials with what others taught")
    shown.add_column("operator")
    counts = sorted(transfers.operators[0].ratios)
    for count in counts:
        shown.add_column(f"{count}", justify="right")
    shown.add_column("reached at", justify="right")
    for one in transfers.operators:
        reached = one.trials_to_reach
        shown.add_row(
            one.spec,
            *[f"{one.ratios[count]:.2f}" for count in counts],
            "later" if reached is None else f"{reached}",
        )
    shown.caption = (
        f"within {EARLY_TRIALS} trials: {transfers.early_share:.0%}; "
        f"at the end: geomean {transfers.geomean:.2f}, worst {transfers.worst:.2f}"
    )
    return shown


@click.command()
@click.option("--part", "parts", multiple=True, type=click.Choice(PARTS), default=PARTS)
@click.option("--size", "sizes", multiple=True, type=click.IntRange(min=64), default=SIZES)
@click.option("--op", "operators", multiple=True, help="Instead of the quick suite; repeatable.")
@click.option("--trials", type=click.IntRange(min=1), default=32, show_default=True)
@click.option("--target", default="host", show_default=True)
@click.option("--seed", type=click.IntRange(min=1), default=1, show_default=True)
@click.option("--scratch", type=click.Path(path_type=Path, file_okay=False))
@click.option("--json", "json_file", type=click.Path(path_type=Path, dir_okay=False))
def main(json_file: Path | None, operators: Sequence[str], **options: Any) -> None:
    """Measure a memory as it grows, and what it is worth to an operator that it never saw."""
    report(run_memory(operators=operators or QUICK_SUITE, say=say, **options), json_file)


def say(text: str) -> None:
    """Tell what is being done, beside the figures."""
    click.echo(text, err=True)


if __name__ == "__main__":
    sys.exit(main())
