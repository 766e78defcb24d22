# SPDX-License-Identifier: Apache-2.0
"""Builds SpacemiT's matrix instructions for Spike."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path

import platformdirs

from kope_tvm.device.spike.emulator import spike
from kope_tvm.errors import KopeError

_SOURCE = Path(__file__).parent / "ime.cc"
_FLAGS = ("-std=c++17", "-O1", "-fPIC", "-shared", "-w", "-D_GLIBCXX_USE_CXX11_ABI=0")
"""The package is built for manylinux2014, whose strings are those of before C++11."""
_FOLDERS = ("", "riscv", "softfloat", "fesvr")


@lru_cache(maxsize=1)
def ime_library() -> Path:
    """The extension, built against Spike's own headers the first time it is asked for."""
    compiler = shutil.which("c++")
    if compiler is None:
        raise KopeError("Spike's extension needs a C++ compiler; apt-get install g++")
    headers = Path(spike()).parents[1] / "include"
    if not headers.is_dir():
        raise KopeError(f"no headers beside {spike()}; pip install spike brings them")
    facts = "\0".join((str(headers), *_FLAGS, _SOURCE.read_text()))
    key = hashlib.sha256(facts.encode()).hexdigest()[:16]
    made = Path(platformdirs.user_cache_dir("kope-tvm")) / "spike" / f"ime-{key}.so"
    if not made.exists():
        made.parent.mkdir(parents=True, exist_ok=True)
        _build(compiler, headers, made)
    return made


def _build(compiler: str, headers: Path, made: Path) -> None:
    includes = [f"-I{headers / folder}" for folder in _FOLDERS]
    with tempfile.TemporaryDirectory(dir=made.parent) as scratch:
        fresh = Path(scratch) / made.name
        command = [compiler, *_FLAGS, *includes, "-o", str(fresh), str(_SOURCE)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise KopeError(f"cannot build Spike's extension: {done.stderr[-400:]}")
        fresh.replace(made)
