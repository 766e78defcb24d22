# SPDX-License-Identifier: Apache-2.0
"""Fits the simulated machine's weights to what a board measured of the same kernels."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import tvm

from kope_tvm.device.board import Session, open_session
from kope_tvm.device.cross_compiler import find_cross_compiler
from kope_tvm.device.place import Place
from kope_tvm.device.program.link import Program, link
from kope_tvm.device.simulate.calibration import Calibration, Weights, core_class
from kope_tvm.device.simulate.fit import Fit, fit
from kope_tvm.device.simulate.opinions.schedules import FAMILIES, Scheduled, scheduled, untuned
from kope_tvm.device.simulate.program import run_linked
from kope_tvm.errors import KopeError
from kope_tvm.target import TargetSpec

Say = Callable[[str], None]

LARGE = (
    ("matvec in L2", "op:matmul:m=1,n=256,k=256,dtype=float32", "matmul_rvv"),
    ("elementwise in L2", "op:bias_add:m=64,n=512,dtype=float32", "elementwise_rvv"),
    ("elementwise in memory", "op:bias_add:m=512,n=1024,dtype=float32", "elementwise_rvv"),
    ("reduction in memory", "op:reduce_sum:m=256,n=1024,dtype=float32", "reduce_rvv"),
)
"""Beside `FAMILIES`, which lie in a first-level cache: these tell the second and memory."""
SCALAR = (
    ("scalar reduction", "op:reduce_sum:m=32,n=160,dtype=float32"),
    ("scalar matmul", "op:matmul:m=16,n=16,k=32,dtype=float32"),
    ("scalar softmax", "op:softmax:m=8,n=64,dtype=float32"),
)
"""Untuned, compiled without vectors: these tell what lies around vectors."""
NUM_EACH, NUM_LARGE = 7, 3
_RV64GC = {"mcpu": "generic-rv64", "mattr": ["+m", "+a", "+f", "+d", "+c"]}
"""An mcpu of a core with vectors brings them back."""
_SESSION_SECS = 600.0
_REPEAT, _LEAST_MS = 3, 20


@dataclass(frozen=True)
class Calibrated:
    """What the fit found, and how far it goes."""

    calibration: Calibration
    fit: Fit
    kernels: tuple[str, ...]


def calibrate(place: Place, spec: TargetSpec, say: Say) -> Calibrated:
    """Measure the kernels on a board and fit this machine's weights to its times.

    Raises KopeError where the board is emulated or simulated: it has no times of its own.
    """
    session = open_session(place, _SESSION_SECS)
    if session.info.emulated or session.info.timer:
        word = "simulated" if session.info.timer else "emulated"
        raise KopeError(
            f"{place} is {word}: a simulated machine would be calibrated against itself; "
            "start kope-server on a board"
        )
    chosen = tuple(kernels(spec))
    say(f"{len(chosen)} kernels, first on {place}, then simulated some twenty times")
    secs = [_measured(session, each.program) for each in chosen]
    return fitted(chosen, secs, spec, say)


def kernels(
    spec: TargetSpec, num_each: int = NUM_EACH, num_large: int = NUM_LARGE
) -> Iterator[Scheduled]:
    """What is run on both, on one core, the same each time."""
    alone = one_core(spec)
    yield from scheduled(alone, num_each, FAMILIES)
    yield from scheduled(alone, num_large, LARGE)
    for family, operator in SCALAR:
        yield untuned(_without_vectors(alone), family, operator)


def measured(place: Place, chosen: Sequence[Scheduled]) -> list[float]:
    """Seconds of one call of each kernel, as the board's server tells them."""
    session = open_session(place, _SESSION_SECS)
    return [_measured(session, each.program) for each in chosen]


def fitted(
    chosen: Sequence[Scheduled], secs: Sequence[float], spec: TargetSpec, say: Say
) -> Calibrated:
    """The weights under which the simulated machine comes closest to those seconds."""
    with _linked(chosen) as programs:

        def simulated(weights: Weights) -> list[float]:
            say(f"simulating with {weights}")
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                return list(pool.map(lambda made: _simulated(made, spec, weights), programs))

        found = fit(simulated, secs)
    date = time.strftime("%Y-%m-%d")
    names = tuple(f"{each.family}: {each.label}" for each in chosen)
    return Calibrated(Calibration(core_class(spec), date, found.weights), found, names)


def one_core(spec: TargetSpec) -> TargetSpec:
    """The same machine with one core: how cores share is not what is fitted."""
    return replace(spec, facts=replace(spec.facts, num_cores=1))


def _without_vectors(spec: TargetSpec) -> TargetSpec:
    return replace(spec, tvm_target={**spec.tvm_target, **_RV64GC})


@contextmanager
def _linked(chosen: Sequence[Scheduled]) -> Iterator[list[Path]]:
    with tempfile.TemporaryDirectory(prefix="kope-") as scratch:
        made = []
        for number, each in enumerate(chosen):
            folder = Path(scratch) / str(number)
            folder.mkdir()
            made.append(link(each.program, folder))
        yield made


def _simulated(made: Path, spec: TargetSpec, weights: Weights) -> float:
    with tempfile.TemporaryDirectory(prefix="kope-") as scratch:
        ran = run_linked(made, one_core(spec), Path(scratch), weights=weights)
        return ran.regions[-1].secs


def _measured(session: Session, program: Program) -> float:
    with tempfile.TemporaryDirectory(prefix="kope-") as scratch:
        made, library = Path(scratch) / "function.o", Path(scratch) / "kernel.so"
        made.write_bytes(program.object_bytes)
        command = (find_cross_compiler().cxx, "-shared", "-o", str(library), str(made))
        subprocess.run(command, check=True)
        module = session.load(str(library))
    device: Any = session.remote.cpu(0)
    arguments = [tvm.runtime.tensor(np.ascontiguousarray(one), device) for one in program.arguments]
    number, repeat, least_ms = (1, 1, 0) if session.info.timer else (10, _REPEAT, _LEAST_MS)
    timer = module.time_evaluator(
        "main", device, number=number, repeat=repeat, min_repeat_ms=least_ms
    )
    return median(float(secs) for secs in timer(*arguments).results)
