# SPDX-License-Identifier: Apache-2.0
"""Which compiler made a measurement: results of another toolchain are hints only."""

from __future__ import annotations

from functools import lru_cache
from importlib.metadata import version

from tvm import get_global_func

LOWERING = 2
"""To be raised where `tir_pipeline` comes to make other code of a schedule; 1 was TVM's own."""


@lru_cache(maxsize=1)
def toolchain() -> str:
    """E.g. `tvm 0.27.0.post1, ffi 0.1.14.post1, llvm 22, lowering 2`."""
    llvm = get_global_func("target.llvm_version_major")()
    packages = f"tvm {version('apache-tvm')}, ffi {version('apache-tvm-ffi')}, llvm {llvm}"
    return f"{packages}, lowering {LOWERING}"
