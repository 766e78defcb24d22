# SPDX-License-Identifier: Apache-2.0
"""Times one compiled function on the simulated machine, without a server."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kope_tvm.device.emulator import find_emulator
from kope_tvm.device.program.link import Array, Program, link
from kope_tvm.device.simulate.calibration import Weights, mark_of
from kope_tvm.device.simulate.counted import Counted, read
from kope_tvm.device.simulate.counter import counting
from kope_tvm.device.simulate.opinions.mca import Report, mca_reports
from kope_tvm.errors import KopeError
from kope_tvm.target import TargetSpec


@dataclass(frozen=True)
class Simulated:
    """What a program computed, and what each of its timed calls took."""

    outputs: tuple[Array, ...]
    regions: tuple[Counted, ...]


@dataclass(frozen=True)
class Ran:
    """What a program wrote, and what each of its timed calls took."""

    written: bytes
    regions: tuple[Counted, ...]


def simulate(program: Program, spec: TargetSpec) -> Simulated:
    """Runs a program on a target's simulated machine.

    Raises KopeError where it dies, or takes longer than the target's `limits.run_secs`.
    """
    with tempfile.TemporaryDirectory(prefix="kope-") as scratch:
        folder = Path(scratch)
        ran = run_linked(link(program, folder), spec, folder)
        return Simulated(program.outputs(ran.written), ran.regions)


def hot_piece(program: Program, spec: TargetSpec) -> Report:
    """What `llvm-mca` says of the code in which a program spends its time."""
    with tempfile.TemporaryDirectory(prefix="kope-") as scratch:
        folder = Path(scratch)
        made, profile = link(program, folder), folder / "profile"
        run_linked(made, spec, folder, profile)
        return mca_reports(made, profile)[0]


def run_linked(
    made: Path,
    spec: TargetSpec,
    folder: Path,
    profile: Path | None = None,
    weights: Weights | None = None,
) -> Ran:
    """The same of a program that is linked already; `profile` and `weights` as for `counting`."""
    emulator = find_emulator()
    counted = counting(spec, folder, profile, weights)
    command = (*emulator.command(spec, 0), *counted, str(made))
    written = _run(command, emulator.environment(), spec.limits.run_secs)
    return Ran(written, read(folder, mark_of(spec)))


def _run(command: tuple[str, ...], environment: Mapping[str, str], limit_secs: float) -> bytes:
    surroundings = {**os.environ, **environment}
    try:
        done = subprocess.run(
            command, env=surroundings, capture_output=True, timeout=limit_secs, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise KopeError(f"the function ran longer than {limit_secs:g} s, simulated") from error
    if done.returncode:
        reason = done.stderr.decode(errors="replace").strip()[-200:]
        raise KopeError(f"the function failed with exit code {done.returncode}: {reason}")
    return done.stdout
