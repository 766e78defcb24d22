# SPDX-License-Identifier: Apache-2.0
"""The pass plugin in MLIR's Python bindings: `kope-annotate` and `kope-apply` for a PassManager.

The bindings have no call for it. Their libraries export what a plugin needs once they are loaded
for everybody, and the plugin's entry point is called as `mlir-opt` calls it. In a process with
another LLVM, such as TVM's, that is one LLVM too many to vouch for: load it in one of its own.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import kope_tvm
from kope_tvm.errors import UsageError

PLUGIN = "libkope_mlir_python.so"
"""Of the bindings; `libkope_mlir.so` is mlir-opt's, whose LLVM was built otherwise."""
_API_VERSION = 1


class _Info(ctypes.Structure):
    """`mlir::PassPluginLibraryInfo`."""

    _fields_ = (
        ("api_version", ctypes.c_uint32),
        ("name", ctypes.c_char_p),
        ("version", ctypes.c_char_p),
        ("register_passes", ctypes.CFUNCTYPE(None)),
    )


def load_plugin(path: Path | None = None) -> str:
    """Register the passes, and return the LLVM version that the plugin was built with.

    Without a path it is looked for beside the package. Raises UsageError where it is not there,
    or is no plugin of these bindings.
    """
    from kope_tvm.mlir import bindings

    found = path or _installed()
    libraries = Path(bindings.libraries_dir())
    try:
        for name in (_llvm_beside(libraries), libraries / "libMLIRPythonCAPI.so"):
            ctypes.CDLL(str(name), mode=ctypes.RTLD_GLOBAL)
        # Every symbol now: a plugin of another MLIR is to fail here and not in the middle.
        library = ctypes.CDLL(str(found), mode=os.RTLD_NOW)
        entry = library.mlirGetPassPluginInfo
    except (OSError, AttributeError) as error:
        raise UsageError(f"{found}: not a plugin for MLIR's Python bindings: {error}") from error
    entry.restype = _Info
    info = entry()
    if info.api_version != _API_VERSION:
        raise UsageError(f"{found}: plugin API {info.api_version}, expected {_API_VERSION}")
    info.register_passes()
    return str(info.version.decode())


def _installed() -> Path:
    for folder in kope_tvm.__path__:
        path = Path(folder) / "lib" / PLUGIN
        if path.is_file():
            return path
    raise UsageError(
        f"no {PLUGIN} beside kope_tvm; `make mlir-plugin` builds it into build/mlir, and needs "
        "libmlir-22-dev"
    )


def _llvm_beside(libraries: Path) -> Path:
    """The bindings' own LLVM, which comes in another package."""
    return (libraries / "../../llvm/lib/libLLVM.so").resolve()
