# SPDX-License-Identifier: Apache-2.0
"""TVM's build, once more without one LLVM pass where that pass breaks the module.

LLVM's vectoriser of straight-line code makes invalid code of some small unrolled loops, e.g. of a
2x2 average pooling of [1, 4, 6, 3] with AVX: "Instruction does not dominate all uses".
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import tvm
from tvm import IRModule
from tvm.target import Target

_BROKEN = "LLVM module verification failed"
_WITHOUT_THE_PASS = "-vectorize-slp=false"


def build(mod: IRModule, target: Target) -> Any:
    """What `tvm.compile` returns; raises what it raises."""
    try:
        return tvm.compile(mod, target=target)
    except RuntimeError as error:
        if _BROKEN not in str(error):
            raise
        options = dict(target.export())
        options["cl-opt"] = [*options.get("cl-opt", ()), _WITHOUT_THE_PASS]
        return tvm.compile(mod, target=Target(options))


def object_bytes(mod: IRModule, target: Target) -> bytes:
    """The object file that LLVM makes of a module; raises what `build` raises."""
    with tempfile.TemporaryDirectory(prefix="kope-") as scratch:
        made = Path(scratch) / "function.o"
        build(mod, target).mod.write_to_file(str(made), "o")
        return made.read_bytes()
