# SPDX-License-Identifier: Apache-2.0
"""Transform scripts beside MLIR's default lowering."""

from __future__ import annotations

import json
from dataclasses import asdict

from rich.console import Console
from rich.table import Table

from kope_tvm.bench.mlir import MlirBench, run_mlir
from kope_tvm.bench.wanted import Wanted


def run(wanted: Wanted) -> None:
    """Tune each function, time it beside the default lowering, print ratios."""
    found = run_mlir(wanted)
    if wanted.json_file is not None:
        text = json.dumps(_as_json(found), indent=1)
        wanted.json_file.write_text(text + "\n", encoding="utf-8")
    Console().print(_table(found))


def _as_json(bench: MlirBench) -> dict[str, object]:
    ratios = {result.name: result.ratio for result in bench.results}
    return {"suite": "mlir", **asdict(bench), "ratios": ratios, "geomean": bench.geomean}


def _table(bench: MlirBench) -> Table:
    title = f"how many times as fast as the default lowering ({bench.toolchain}, one thread)"
    table = Table(title=title)
    for header in ("function", "times", "noise", "ms", "trials", "wrong"):
        table.add_column(header, justify="left" if header == "function" else "right")
    for result in bench.results:
        secs = min(result.tuned_secs, default=0.0)
        figures = (f"{result.ratio:.2f}", f"±{result.noise:.0%}", f"{secs * 1e3:.3g}")
        table.add_row(result.name, *figures, f"{result.trials}", f"{result.wrong}")
    table.add_row("geomean", f"{bench.geomean:.2f}", "", "", "", "")
    return table
