# SPDX-License-Identifier: Apache-2.0
"""What the board's server is made of: the runtimes in the installed wheels, and our own files."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from kope_tvm.errors import UsageError
from kope_tvm.versions import installed_version

SERVER = Path(__file__).parent / "server"
OVERLAY = SERVER / "overlay"
"""Headers that TVM's runtime includes and its wheel leaves out, written anew for the server."""

_FFI = (
    *("backtrace", "container", "custom_allocator", "dtype", "error", "function", "init_once"),
    *("object", "tensor", "extra/env_c_api", "extra/env_context", "extra/json_parser"),
    *("extra/json_writer", "extra/library_module", "extra/library_module_dynamic_lib"),
    *("extra/library_module_system_lib", "extra/module"),
)
_RUNTIME = (
    *("builtin_fp16", "const_loader_module", "cpu_device_api", "device_api", "file_utils"),
    *("logging", "module", "static_library", "tensor", "thread_pool", "threading_backend"),
    *("timer", "workspace_pool", "memory/memory_manager", "rpc/rpc_channel"),
    *("rpc/rpc_device_api", "rpc/rpc_endpoint", "rpc/rpc_local_session", "rpc/rpc_module"),
    *("rpc/rpc_server_env", "rpc/rpc_session", "vm/builtin", "vm/bytecode", "vm/executable"),
    *("vm/vm", "extra/contrib/random/random", "extra/contrib/sort/sort"),
)
"""No sockets and pipes of TVM's: the server has its own."""


@dataclass(frozen=True)
class Sources:
    """Folders and versions of one server."""

    tvm: Path
    """Has `src`, `include` and `3rdparty/compiler-rt`."""
    ffi: Path
    tvm_version: str
    ffi_version: str

    @property
    def runtime_files(self) -> list[Path]:
        """What is the same for every server of these versions."""
        ffi = [self.ffi / "src" / "ffi" / f"{name}.cc" for name in _FFI]
        return ffi + [self.tvm / "src" / "runtime" / f"{name}.cc" for name in _RUNTIME]

    @property
    def include_dirs(self) -> list[Path]:
        folders = [self.tvm / "include", self.ffi / "include", self.tvm]
        folders += [self.tvm / "3rdparty" / "compiler-rt", self.ffi / "3rdparty/dlpack/include"]
        return folders

    @property
    def headers(self) -> list[Path]:
        """Of the runtimes, in a fixed order."""
        folders = [self.tvm / "src" / "runtime", self.tvm / "src" / "support"]
        folders += [folder for folder in self.include_dirs if folder != self.tvm]
        return [path for folder in folders for path in sorted(folder.rglob("*.h"))]


def server_files() -> list[Path]:
    """Our own part of the server; the last one is all that knows the versions."""
    stamp = SERVER / "versions.cc"
    return [*sorted(set(SERVER.glob("*.cc")) - {stamp}), stamp]


def installed_sources(staging: Path) -> Sources:
    """Those of the installed wheels, made whole in `staging` by what they leave out."""
    tvm, ffi = _package("tvm"), _package("tvm_ffi")
    for folder in ("src/runtime", "include"):
        shutil.copytree(tvm / folder, staging / folder, dirs_exist_ok=True)
    shutil.copytree(OVERLAY, staging, dirs_exist_ok=True)
    return Sources(
        staging, ffi, installed_version("apache-tvm"), installed_version("apache-tvm-ffi")
    )


def checkout_sources(folder: Path) -> Sources:
    """Those of a whole checkout of TVM, with its submodule tvm-ffi."""
    for part in ("src/support/arena.h", "3rdparty/tvm-ffi/src/ffi/object.cc"):
        if not (folder / part).is_file():
            raise UsageError(
                f"{folder}: no {part}; expected a checkout of apache/tvm {_tvm()} with its "
                "submodules (git submodule update --init --recursive)"
            )
    return Sources(
        folder, folder / "3rdparty" / "tvm-ffi", _tvm(), installed_version("apache-tvm-ffi")
    )


def _tvm() -> str:
    return installed_version("apache-tvm")


def _package(name: str) -> Path:
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise UsageError(f"no package {name}; pip install kope-tvm brings it")
    return Path(spec.origin).parent
