# SPDX-License-Identifier: Apache-2.0
"""Asks rvsim, a simulator of whole cores, how long a program takes."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from kope_tvm.device.program.link import symbol_address
from kope_tvm.errors import KopeError

PYPI_PACKAGE = "rvsim"
_LIMIT_SECS = 120.0


def rvsim_cycles(bare_program: Path, vlen_bits: int) -> float:
    """Cycles of the last timed call of a bare program."""
    if find_spec("rvsim") is None:
        raise KopeError(f"rvsim is not installed; pip install {PYPI_PACKAGE}")
    address = symbol_address(bare_program, "kope_cycles")
    module = "kope_tvm.device.simulate.opinions.rvsim_cycles"
    command = (sys.executable, "-m", module, str(bare_program), str(address), str(vlen_bits))
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_LIMIT_SECS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise KopeError(f"rvsim took longer than {_LIMIT_SECS:g} s") from error
    cycles = done.stdout.strip().rpartition("\n")[2]
    if cycles == "0":
        raise KopeError("the program trapped on rvsim before its timed call")
    if done.returncode or not cycles.isdigit():
        raise KopeError(f"rvsim failed: {(done.stderr or done.stdout).strip()[-200:]}")
    return float(cycles)
