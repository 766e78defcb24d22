# SPDX-License-Identifier: Apache-2.0
"""What NVIDIA's compiler made of a CUDA source, kept: it takes most of a candidate's build.

A candidate is built again whenever it is measured again, and so is whatever is compiled of it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tvm
import tvm_ffi
from platformdirs import user_cache_path

_CALLBACK = "tvm_callback_cuda_compile"
_installed: list[Callable[..., Any]] = []


def install() -> None:
    """Put it before TVM's own way to the compiler, whatever that is; idempotent."""
    if _installed:
        return
    compiler = tvm_ffi.get_global_func(_CALLBACK)
    _installed.append(compiler)

    def kept(code: str) -> Any:
        path = folder() / f"{_key(code)}.bin"
        with contextlib.suppress(OSError):
            return path.read_bytes()
        made = compiler(code)
        _keep(path, bytes(made))
        return made

    tvm_ffi.register_global_func(_CALLBACK, kept, override=True)


def folder() -> Path:
    """Where they are kept: under `$KOPE_HOME`, or in the user's cache."""
    home = os.environ.get("KOPE_HOME")
    return (Path(home) / "cache" if home else user_cache_path("kope-tvm")) / "cuda"


def _key(code: str) -> str:
    target = tvm.target.Target.current(allow_none=True)
    arch = str(target.attrs.get("arch", "")) if target is not None else ""
    mode = os.environ.get("TVM_CUDA_COMPILE_MODE", "")
    asked = "\0".join((tvm.__version__, arch, mode, code))
    return hashlib.sha256(asked.encode()).hexdigest()[:32]


def _keep(path: Path, made: bytes) -> None:
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name(f"{path.name}.{os.getpid()}")
        fresh.write_bytes(made)
        fresh.replace(path)
