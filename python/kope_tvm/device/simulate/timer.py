# SPDX-License-Identifier: Apache-2.0
"""Builds the library that makes a board's server tell simulated time."""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
from collections.abc import Sequence
from functools import lru_cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import platformdirs

from kope_tvm.device.cross_compiler import find_cross_compiler
from kope_tvm.errors import KopeError

_SOURCE = Path(__file__).parent / "guest" / "timer.cc"
_OVERLAY = Path(__file__).parents[1] / "server" / "overlay" / "include"
_FLAGS = ("-std=c++17", "-O2", "-fPIC", "-shared", "-Wl,-z,now", "-static-libstdc++")
"""The server has only as much of the C++ library inside as it needs itself."""


@lru_cache(maxsize=1)
def timer_library() -> Path:
    """The library for RISC-V, built the first time it is asked for; the server's `--timer`."""
    compiler = find_cross_compiler()
    versions = (version("apache-tvm"), version("apache-tvm-ffi"), compiler.version)
    facts = (*versions, *_FLAGS, _SOURCE.read_text())
    key = hashlib.sha256("\0".join(facts).encode()).hexdigest()[:16]
    made = Path(platformdirs.user_cache_dir("kope-tvm")) / "simulate" / f"timer-{key}.so"
    if not made.exists():
        made.parent.mkdir(parents=True, exist_ok=True)
        _build(compiler.cxx, made)
    return made


def _build(compiler: str, made: Path) -> None:
    includes = [f"-I{folder}" for folder in _include_dirs()]
    with tempfile.TemporaryDirectory(dir=made.parent) as scratch:
        fresh = Path(scratch) / made.name
        command = [compiler, *_FLAGS, *includes, "-o", str(fresh), str(_SOURCE)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise KopeError(f"cannot build the simulated timer: {done.stderr[-400:]}")
        fresh.replace(made)


def _include_dirs() -> Sequence[Path]:
    """The wheels' own headers, after the few that the wheels lack."""
    found = [_OVERLAY]
    for package in ("tvm", "tvm_ffi"):
        spec = find_spec(package)
        folders = spec.submodule_search_locations if spec else None
        if not folders:
            raise KopeError(f"the package {package} is not installed")
        found += [Path(folder) / "include" for folder in folders]
    return found
