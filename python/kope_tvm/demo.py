# SPDX-License-Identifier: Apache-2.0
"""`make demo`: tune a real ONNX model on this machine, prove it, and compare before and after."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from kope_tvm.bench.contender import in_turns
from kope_tvm.machine import load_target
from kope_tvm.model import load_model
from kope_tvm.model_gate import proved_model
from kope_tvm.progress import progress_on, spell_secs
from kope_tvm.tuning import tune

_TRIALS = 320
_DIMS = {"x.0": 1, "x.2": 48, "x.3": 192}


def main() -> int:
    """Tune the model named on the command line and print what it brought."""
    console = Console()
    path = Path(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="kope-demo-") as folder:
        return _demo(path, Path(folder), console)


def _demo(path: Path, folder: Path, console: Console) -> int:
    spec = load_target("host")
    work_dir = folder / "work"
    memory = str(folder / "memory.sqlite")
    model = load_model(path, dims=_DIMS)
    report = tune(model, spec, work_dir, _TRIALS, memory=memory, seed=1, progress=progress_on())
    console.print(
        f"{path.name}: {len(report.tasks)} functions, {report.trials} trials "
        f"in {report.wall_secs:.0f} s ({report.failed} failed)"
    )
    proved = proved_model(model, spec, work_dir)
    console.print(f"{proved.artifact.coverage}; {proved.check}")
    files = {"before": folder / "untuned.so", "after": folder / "tuned.so"}
    proved.untuned.save(files["before"])
    proved.artifact.save(files["after"])
    assert model.onnx is not None
    files["ONNX Runtime"] = folder / "model.onnx"
    files["ONNX Runtime"].write_bytes(model.onnx)
    turns = in_turns(files, spec.name, spec.facts.num_cores)
    console.print(_table(turns))
    return 0


def _table(turns: Mapping[str, tuple[float, ...]]) -> Table:
    shown = Table(title="one call, median of interleaved turns")
    for column in ("", "time", "after is … times as fast"):
        shown.add_column(column, justify="right")
    for name, secs in turns.items():
        pairs = zip(secs, turns["after"], strict=True)
        ratio = median(other / mine for other, mine in pairs)
        shown.add_row(name, spell_secs(median(secs)), f"{ratio:.2f}")
    return shown


if __name__ == "__main__":
    sys.exit(main())
