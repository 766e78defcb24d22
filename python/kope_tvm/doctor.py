# SPDX-License-Identifier: Apache-2.0
"""What works on this machine, found by asking each part for itself."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from kope_tvm.chat.modes import Modes
from kope_tvm.chat.reachable import unreachable
from kope_tvm.config import Endpoint, load_endpoint, without_credentials
from kope_tvm.errors import KopeError
from kope_tvm.versions import PINS, installed_version

_REQUIRED = frozenset({"python", "tvm packages", "tvm", "host"})
"""Parts that no run can do without."""

_ZVFH_SINCE = (8, 1)
"""Versions of QEMU."""
_ACCELERATORS = ("cuda", "rocm", "vulkan", "metal", "opencl")


@dataclass(frozen=True)
class Finding:
    """One thing looked at."""

    name: str
    ok: bool
    value: str
    fix: str = ""
    """What to do where it is not ok."""
    required: bool = False
    """Nothing can be tuned without it."""


def examine(environment: Mapping[str, str] = os.environ) -> tuple[Finding, ...]:
    """Look at everything; a part that fails is a finding, not an exception."""
    parts: tuple[tuple[str, Callable[[], Iterator[Finding]]], ...] = (
        ("python", _python),
        ("tvm packages", _packages),
        ("tvm", _tvm),
        ("host", _host),
        ("threads", lambda: _threads(environment)),
        ("compilers", _compilers),
        ("riscv", _riscv),
        ("onnx", _onnx),
        ("endpoint", lambda: _endpoint(environment)),
        ("memory", _memory),
    )
    return tuple(finding for name, part in parts for finding in _asked(name, part))


def broken(findings: tuple[Finding, ...]) -> bool:
    """Whether something is missing that every run needs."""
    return any(one.required and not one.ok for one in findings)


def _asked(name: str, part: Callable[[], Iterator[Finding]]) -> list[Finding]:
    try:
        return list(part())
    except (KopeError, ImportError, OSError, RuntimeError, ValueError) as error:
        text = without_credentials(str(error)).strip() or type(error).__name__
        return [Finding(name, False, text.splitlines()[0], "see the message", name in _REQUIRED)]


def _python() -> Iterator[Finding]:
    ok = (3, 10) <= sys.version_info < (3, 14)
    fix = "use Python 3.10 to 3.13"
    yield Finding("python", ok, platform.python_version(), fix, required=True)


def _packages() -> Iterator[Finding]:
    for name, pinned in PINS:
        found = installed_version(name)
        fix = f"pip install {name}=={pinned}"
        yield Finding(name, found == pinned, found or "missing", fix, required=True)


def _tvm() -> Iterator[Finding]:
    if any(installed_version(name) != pinned for name, pinned in PINS):
        return  # Importing a wrong pair can crash the process.
    import tvm
    from tvm.target import codegen

    llvm = codegen.llvm_version_major(allow_none=True)
    fix = "install a build of apache-tvm with LLVM"
    yield Finding("llvm", llvm is not None, str(llvm or "missing"), fix, required=True)
    found = [kind for kind in _ACCELERATORS if tvm.device(kind, 0).exist]
    yield Finding("devices", True, ", ".join(["cpu", *found]))


def _host() -> Iterator[Finding]:
    from kope_tvm.machine import load_target

    spec = load_target("host")
    facts = spec.facts
    caches = " / ".join(
        f"{size >> 10}K" if size else "?"
        for size in (facts.l1_bytes, facts.l2_bytes, facts.l3_bytes)
    )
    value = (
        f"{spec.tvm_target.get('mcpu')}, {facts.isa or 'no known vector unit'} "
        f"{facts.vlen_bits} bits, {facts.num_cores} usable cores, caches {caches}"
    )
    yield Finding("host", bool(facts.isa), value, "describe this machine in a target TOML file")


def _threads(environment: Mapping[str, str]) -> Iterator[Finding]:
    import tvm

    from kope_tvm.machine import read_target

    cores = read_target("host").facts.num_cores
    taken = int(tvm.get_global_func("runtime.NumThreads")())
    given = environment.get("TVM_NUM_THREADS", "unset")
    value = f"TVM would take {taken} of {cores} usable cores; TVM_NUM_THREADS {given}"
    fix = f"kope sets it wherever it measures; elsewhere export TVM_NUM_THREADS={cores}"
    yield Finding("threads", taken == cores, value, fix)


def _compilers() -> Iterator[Finding]:
    fix = "Debian: apt install g++"
    # Without one nothing can be written as a shared object; tuning works.
    yield _program("c++ compiler", ("g++", "c++", "clang++"), fix)


def _riscv() -> Iterator[Finding]:
    yield _emulator()
    yield _program(
        "riscv64 compiler",
        ("riscv64-linux-gnu-g++", "riscv64-linux-gnu-gcc"),
        "Debian: apt install g++-riscv64-linux-gnu",
    )
    yield _program("llvm-mca", ("llvm-mca-22", "llvm-mca"), "pip install 'kope-tvm[riscv]'")


def _emulator() -> Finding:
    """Old ones count instructions for a simulated board; new ones know Zvfh and RVA23."""
    from kope_tvm.device.emulator import find_emulator

    try:
        found = find_emulator()
    except KopeError as error:
        return Finding("qemu-riscv64", False, "missing", str(error))
    version = ".".join(map(str, found.version))
    knows = "no Zvfh" if found.version < _ZVFH_SINCE else "Zvfh"
    return Finding("qemu-riscv64", True, f"{found.path} {version}, V, {knows}")


def _program(name: str, candidates: tuple[str, ...], fix: str) -> Finding:
    path = next(filter(None, map(shutil.which, candidates)), None)
    return Finding(name, path is not None, path or "missing", fix)


def _onnx() -> Iterator[Finding]:
    for name in ("onnx", "onnxruntime"):
        found = installed_version(name)
        yield Finding(name, bool(found), found or "missing", "pip install 'kope-tvm[onnx]'")


def _endpoint(environment: Mapping[str, str]) -> Iterator[Finding]:
    from kope_tvm.memory.location import default_path

    home = default_path().parent
    endpoint = load_endpoint(home, environment)
    state, fix = _asked_endpoint(endpoint, home, environment)
    parts = (
        f"base_url {endpoint.shown_url if endpoint.base_url else 'unset'}",
        f"model {endpoint.model or 'unset'}",
        f"{endpoint.api_key_env} {'set' if endpoint.has_key else 'unset'}",
        state,
    )
    yield Finding("endpoint", not fix, ", ".join(parts), fix)


def _asked_endpoint(
    endpoint: Endpoint, home: Path, environment: Mapping[str, str]
) -> tuple[str, str]:
    """What came of asking the server, and what to do where nothing did."""
    alone = "without it experience works alone"
    if not endpoint.is_set:
        return "not asked", f"set {', '.join(endpoint.missing)}; {alone}"
    if fault := unreachable(endpoint, environment.get(endpoint.api_key_env, "")):
        return fault, f"start the server, or set OPENAI_BASE_URL and its key right; {alone}"
    modes = Modes(home, endpoint.shown_url, endpoint.model)
    mode = modes.mode if modes.is_settled else "not found out yet"
    return f"answers, JSON mode {mode}", ""


def _memory() -> Iterator[Finding]:
    from kope_tvm.memory.location import damage, default_path

    path = default_path()
    folder = _nearest(path)
    writable = os.access(path if path.exists() else folder, os.W_OK) and os.access(folder, os.W_OK)
    wrong = (damage(path) if path.exists() else "") if writable else "not writable"
    state = wrong or (f"{path.stat().st_size >> 10} KiB" if path.exists() else "not made yet")
    fix = "make its folder writable, or choose another with KOPE_HOME or --memory"
    yield Finding("memory", not wrong, f"{path}, {state}", fix)


def _nearest(path: Path) -> Path:
    """The closest folder above that exists."""
    return next(folder for folder in path.parents if folder.exists())
