# SPDX-License-Identifier: Apache-2.0
"""Builds the counter, a plugin of the user-mode emulator, and says how a guest is counted."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path

import platformdirs

from kope_tvm.device.emulator import find_emulator
from kope_tvm.device.simulate.calibration import Weights, weights_of
from kope_tvm.errors import KopeError
from kope_tvm.target import TargetSpec

MCPU = "spacemit-x60"
"""Whose costs every target is weighed with: the one core that LLVM describes with vectors."""
_SOURCES = Path(__file__).parent / "plugin"
_COSTS = Path(__file__).parent / "costs" / MCPU
_CLOCK_HZ, _L1_BYTES, _L2_BYTES = 1.6e9, 32 << 10, 512 << 10
_FLAGS = ("-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-std=gnu11")


def counting(
    spec: TargetSpec,
    regions_dir: Path,
    profile: Path | None = None,
    weights: Weights | None = None,
) -> tuple[str, ...]:
    """Arguments of the emulator under which a guest is counted, as on a target's machine.

    What the guest's timers enclose is written to `regions_dir`; at its end, which straight pieces
    of code ran how often is written to `profile`. `weights` are otherwise those of the target's
    calibration. Raises KopeError where the emulator takes no plugins, or there is no C compiler.
    """
    facts = spec.facts
    options: dict[str, object] = {
        "costs": _COSTS,
        "regions": regions_dir,
        "clock_hz": int(facts.clock_hz or _CLOCK_HZ),
        "cores": facts.num_cores,
        "l1_bytes": facts.l1_bytes or _L1_BYTES,
        "l2_bytes": facts.l2_bytes or _L2_BYTES,
        **(weights or weights_of(spec)).options,
    }
    if profile:
        options["profile"] = profile
    told = {
        "TVM_NUM_THREADS": 1,  # Threads that wait would be counted; cores are simulated.
        "KOPE_SIMULATED_CORES": facts.num_cores,
        "KOPE_SIMULATED_REGIONS": regions_dir,
    }
    _check_plugins()
    plugin = ",".join([str(counter()), *(f"{name}={value}" for name, value in options.items())])
    variables = [argument for name in told for argument in ("-E", f"{name}={told[name]}")]
    return ("-plugin", plugin, *variables)


@lru_cache(maxsize=1)
def counter() -> Path:
    """The plugin, built by this machine's C compiler the first time it is asked for."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        raise KopeError("the simulated board needs a C compiler; apt-get install gcc libc6-dev")
    sources = sorted(_SOURCES.glob("*.[ch]"))
    key = hashlib.sha256(b"\0".join(path.read_bytes() for path in sources)).hexdigest()[:16]
    made = Path(platformdirs.user_cache_dir("kope-tvm")) / "simulate" / f"counter-{key}.so"
    if not made.exists():
        made.parent.mkdir(parents=True, exist_ok=True)
        _build(compiler, sources, made)
    return made


def _build(compiler: str, sources: list[Path], made: Path) -> None:
    with tempfile.TemporaryDirectory(dir=made.parent) as scratch:
        fresh = Path(scratch) / made.name
        code = [str(path) for path in sources if path.suffix == ".c"]
        command = [compiler, *_FLAGS, "-o", str(fresh), *code]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise KopeError(f"cannot build the simulated board's counter: {done.stderr[-400:]}")
        fresh.replace(made)  # Whole or not at all, also where two processes build it at once.


@lru_cache(maxsize=1)
def _check_plugins() -> None:
    path = find_emulator().path
    usage = subprocess.run([path, "--help"], capture_output=True, text=True, check=False)
    if "-plugin" not in usage.stdout:
        raise KopeError(f"{path} is built without plugins; Debian 12's qemu-user 7.2 has them")
