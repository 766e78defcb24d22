# SPDX-License-Identifier: Apache-2.0
"""int4 products of a decoding language model, beside ONNX Runtime's and ggml's, in one run.

`python -m kope_tvm.bench.decode --json FILE`. Activations are float32: `float32` multiplies them as
they are, which is accuracy_level 0 of ONNX Runtime's MatMulNBits; `int8` rounds 32 at a time to
int8 first, which is its accuracy_level 4 and all that ggml does. Weights are constants for all:
ONNX Runtime repacks them, ggml is timed on its Q4_0 as it is stored and repacked. Beside a peer,
kope runs as an operator in it, exported: on the same threads.
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from statistics import median

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from kope_tvm.bench.decode_model import matmul_nbits
from kope_tvm.bench.versions import versions
from kope_tvm.c_package.plan import ALIGNMENT_BYTES
from kope_tvm.errors import KopeError
from kope_tvm.exporters.ggml import Ggml
from kope_tvm.exporters.onnxruntime import Onnxruntime
from kope_tvm.exporting import Exportable, exportable
from kope_tvm.machine import load_target
from kope_tvm.model import load_model
from kope_tvm.onnx_reference import OnnxReference
from kope_tvm.tuning import tune

_KINDS = {"float32": ("matmul_q4_0", 0), "int8": ("matmul_q4_0_q8_0", 4)}
"""The operator, and ONNX Runtime's accuracy_level for the same arithmetic."""
_KOPE = "kope"
_LINE = re.compile(r"(\w+): error (\S+), median (\S+) us, best (\S+) us, quartiles (\S+) to (\S+)")
_GGML_TURNS = "201"
_NUM_TURNS, _CALLS = 61, 10
_PAUSE_SECS = 0.1
"""Between turns: one session's spinning threads are asleep when the next one starts."""
_MICRO = 1e-6


@dataclass(frozen=True)
class Side:
    """One contender's turns, or those of one that ran beside another peer."""

    median_secs: float
    best_secs: float
    quartile_secs: tuple[float, float]
    error: float | None = None
    """The largest, over the root mean square of the product in float64."""


@dataclass(frozen=True)
class Product:
    """One shape and one kind of activations."""

    spec: str
    rows: int
    activations: str
    accuracy_level: int
    with_onnxruntime: Mapping[str, Side]
    with_ggml: Mapping[str, Side]

    def ratios(self) -> dict[str, float]:
        """How many times as fast kope is, by peer: medians."""
        pairs = ((beside, name) for beside in self._both() for name in beside if name != _KOPE)
        return {name: each[name].median_secs / each[_KOPE].median_secs for each, name in pairs}

    def best_ratios(self) -> dict[str, float]:
        """The same of the best turns, when least else ran on the machine."""
        pairs = ((beside, name) for beside in self._both() for name in beside if name != _KOPE)
        return {name: each[name].best_secs / each[_KOPE].best_secs for each, name in pairs}

    def _both(self) -> tuple[Mapping[str, Side], ...]:
        return self.with_onnxruntime, self.with_ggml


@dataclass(frozen=True)
class Shape:
    """`[rows, depth] @ [columns, depth]^T`."""

    rows: int
    columns: int
    depth: int


class _Bench:
    """What one run shares."""

    def __init__(self, folder: Path, num_threads: int, trials: int, ggml: Path | None) -> None:
        self._folder = folder
        self._threads = num_threads
        self._trials = trials
        self._ggml = ggml

    def product(self, shape: Shape, activations: str) -> Product:
        """Tune it, then time it beside either peer."""
        operator, level = _KINDS[activations]
        spec = f"op:{operator}:m={shape.rows},n={shape.columns},k={shape.depth},dtype=float32"
        folder = self._folder / f"{operator}_{shape.rows}"
        work_dir = folder / "work"
        tune(spec, "host", work_dir, self._trials, proposer="experience", memory="sqlite://")
        found = exportable(load_model(spec), load_target("host"), work_dir)
        beside = self._beside_onnxruntime(shape, level, found, folder)
        ggml = self._beside_ggml(found, folder) if self._ggml else {}
        return Product(spec, shape.rows, activations, level, beside, ggml)

    def _beside_onnxruntime(
        self, shape: Shape, level: int, found: Exportable, folder: Path
    ) -> dict[str, Side]:
        made = folder / "onnxruntime"
        made.mkdir()
        Onnxruntime("product", found.evidence).export(found.artifact, made)
        model = matmul_nbits(shape.rows, shape.columns, shape.depth, accuracy_level=level)
        (library,) = made.glob("lib*.so")
        sessions = {
            _KOPE: OnnxReference(
                made / "model.onnx", self._threads, optimised=True, library=library
            ),
            "onnxruntime": OnnxReference(model, self._threads, optimised=True),
        }
        return {name: _side(secs) for name, secs in _in_turns(sessions).items()}

    def _beside_ggml(self, found: Exportable, folder: Path) -> dict[str, Side]:
        made = folder / "ggml"
        made.mkdir()
        Ggml("product", found.evidence).export(found.artifact, made)
        where = [f"-DCMAKE_PREFIX_PATH={self._ggml}", f"-DCMAKE_BUILD_RPATH={self._ggml}/lib"]
        build = ["-S", "example", "-B", "build", "-DCMAKE_BUILD_TYPE=Release", *where]
        _run(["cmake", *build], made)
        _run(["cmake", "--build", "build"], made)
        said = _run(["build/compare", str(self._threads), _GGML_TURNS], made)
        return {match[1]: _side_of(match) for match in _LINE.finditer(said)}


def _in_turns(sessions: Mapping[str, OnnxReference]) -> dict[str, list[float]]:
    """Seconds of one call, a value a turn; each runs on the same threads of this process."""
    feeds = {name: _aligned(one.random_inputs(seed=0)) for name, one in sessions.items()}
    turns: dict[str, list[float]] = {name: [] for name in sessions}
    for _ in range(_NUM_TURNS):
        for name, one in sessions.items():
            time.sleep(_PAUSE_SECS)
            turns[name] += one.time(feeds[name], number=_CALLS, repeat=1)
    return turns


def _aligned(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The same, where nobody has to copy them first."""
    found = {}
    for name, array in arrays.items():
        room = np.empty(array.nbytes + ALIGNMENT_BYTES, np.uint8)
        begin = -room.ctypes.data % ALIGNMENT_BYTES
        found[name] = room[begin : begin + array.nbytes].view(array.dtype).reshape(array.shape)
        found[name][...] = array
    return found


def _run(command: Sequence[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines() or ["it said nothing"]
        raise KopeError(f"{' '.join(command)} failed: {' / '.join(said[-3:])}")
    return done.stdout


def _side(secs: Sequence[float]) -> Side:
    ordered = sorted(secs)
    quarter = len(ordered) // 4
    return Side(median(ordered), ordered[0], (ordered[quarter], ordered[-1 - quarter]))


def _side_of(match: re.Match[str]) -> Side:
    error, *micros = map(float, match.groups()[1:])
    middle, best, low, high = (value * _MICRO for value in micros)
    return Side(middle, best, (low, high), error)


def _table(products: Sequence[Product]) -> Table:
    shown = Table(
        title="how many times as fast kope is as …, and µs of a call: medians, best turns"
    )
    for name in ("rows", "activations", "kope", "onnxruntime", "kope", "ggml", "repacked"):
        shown.add_column(name, justify="right")
    for each in products:
        row = [str(each.rows), each.activations]
        for sides in (each.with_onnxruntime, each.with_ggml):
            row += [_cell(each, sides, name) for name in sides]
        shown.add_row(*row)
    return shown


def _cell(product: Product, sides: Mapping[str, Side], name: str) -> str:
    micros = f"{sides[name].median_secs / _MICRO:.0f}, {sides[name].best_secs / _MICRO:.0f}"
    if name == _KOPE:
        return micros
    return f"{product.ratios()[name]:.2f}, {product.best_ratios()[name]:.2f} ({micros})"


def _as_json(products: Sequence[Product], num_threads: int) -> str:
    plain = {
        "command": f"python -m kope_tvm.bench.decode --threads {num_threads}",
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "versions": versions(),
        "machine": asdict(load_target("host").facts),
        "threads": num_threads,
        "products": [
            {**asdict(each), "ratios": each.ratios(), "best_ratios": each.best_ratios()}
            for each in products
        ],
    }
    return json.dumps(plain, indent=1)


@click.command()
@click.option("--json", "file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--rows", multiple=True, type=int, default=(1, 4, 16), help="Tokens at a time.")
@click.option("--columns", default=4096)
@click.option("--depth", default=4096)
@click.option("--activations", multiple=True, type=click.Choice(list(_KINDS)), default=(*_KINDS,))
@click.option("--threads", default=2)
@click.option("--trials", default=8, help="Of tuning each product.")
@click.option("--ggml", type=click.Path(path_type=Path, exists=True), help="Where it is installed.")
def main(
    file: Path | None,
    rows: Sequence[int],
    columns: int,
    depth: int,
    activations: Sequence[str],
    threads: int,
    trials: int,
    ggml: Path | None,
) -> None:
    """Tune, time beside the peers, print ratios."""
    console = Console()
    if ggml is None:
        console.print("without --ggml FOLDER, which has include/ggml.h, ggml does not take part")
    with tempfile.TemporaryDirectory(prefix="kope-decode-") as scratch:
        bench = _Bench(Path(scratch), threads, trials, ggml.resolve() if ggml else None)
        products = [
            bench.product(Shape(each, columns, depth), kind)
            for kind in activations
            for each in rows
        ]
    if file is not None:
        file.write_text(_as_json(products, threads), encoding="utf-8")
    console.print(_table(products))


if __name__ == "__main__":
    main()
