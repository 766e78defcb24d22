# SPDX-License-Identifier: Apache-2.0
"""Which compiler made a measurement: results of another toolchain are hints only."""

from __future__ import annotations

from functools import lru_cache
from importlib.metadata import version

from tvm import get_global_func


@lru_cache(maxsize=1)
def toolchain() -> str:
    """E.g. `tvm 0.27.0.post1, ffi 0.1.14.post1, llvm 22`."""
    llvm = get_global_func("target.llvm_version_major")()
    return f"tvm {version('apache-tvm')}, ffi {version('apache-tvm-ffi')}, llvm {llvm}"
