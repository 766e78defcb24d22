# SPDX-License-Identifier: Apache-2.0
"""Kernels, tables and runtime made one relocatable object that shows its C functions only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import tvm
from tvm.target import Target

from kope_tvm.c_package.plan import Plan
from kope_tvm.c_package.toolset import Toolset
from kope_tvm.errors import KopeError, UsageError
from kope_tvm.host import isa_of
from kope_tvm.llvm_build import build
from kope_tvm.manifest import Manifest
from kope_tvm.native_stderr import SCOPES, without_lines

FLAGS = ("-std=c11", "-O2", "-fPIC", "-Wall", "-Wextra", "-Werror", "-I../include")
_PARALLEL = "__TVMBackendParallelLaunch"
_OF_TVM = ("TVM", "__TVM", "__tvm")
_CONSTANTS = """\
    .section .rodata
    .balign 64
    .globl kope_constants
kope_constants:
    .incbin "kope_constants.bin"
    .section .note.GNU-stack,"",%progbits
"""


@dataclass(frozen=True)
class Library:
    """What is built, and from what."""

    name: str
    tools: Toolset
    sources: Path
    """Holds `<name>.c` and the runtime; kernels and constants are put there."""
    defines: tuple[str, ...] = ()
    """What kope_runtime.c is told beside what the target is."""

    def compile_kernels(self, plan: Plan, tvm_target: Mapping[str, object]) -> None:
        """Compile the PrimFuncs, and lay constants beside them."""
        if tvm_target.get("kind") != "llvm":
            raise UsageError(f"C is for processors: expected an llvm target, not {tvm_target}")
        try:
            built = build(plan.kernels, Target(dict(tvm_target)))
        except (RuntimeError, ValueError, tvm.error.InternalError) as error:
            reason = str(error).strip().splitlines()[0]
            raise KopeError(f"{self.name}: TVM cannot compile it: {reason}") from error
        with without_lines(SCOPES):
            built.mod.write_to_file(str(self.sources / "kope_kernels.o"), "o")
        if plan.constants:
            (self.sources / "kope_constants.bin").write_bytes(plan.constants)
            (self.sources / "kope_constants.S").write_text(_CONSTANTS, encoding="utf-8")

    @property
    def is_parallel(self) -> bool:
        """Whether a kernel has a parallel loop."""
        everything = self.tools.run("nm", ["kope_kernels.o"], self.sources)
        return _PARALLEL in everything

    def describe_machine(self, manifest: Manifest) -> None:
        """Write what kope_runtime.c is told of the target."""
        lines = [f"#define KOPE_THREADS {manifest.num_cores}"]
        lines += [] if self.is_parallel else ["#define KOPE_SERIAL"]
        lines += [f"#define {each}" for each in self.defines]
        features = [str(each).lstrip("+") for each in _features(manifest)]
        if self.tools.machine == "riscv64" and isa_of(features).vlen_bits:
            lines.append(f"#define KOPE_VLEN_BITS {isa_of(features).vlen_bits}")
        text = "\n".join(["#pragma once", *(_once(line) for line in lines), ""])
        (self.sources / "kope_machine.h").write_text(text, encoding="utf-8")

    def link(self, plan: Plan, made: Path) -> None:
        """Write the object; KopeError where it needs more of TVM than the runtime has."""
        files = [
            f"{self.name}.c",
            "kope_runtime.c",
            *(["kope_constants.S"] if plan.constants else []),
        ]
        objects = []
        for file in files:
            objects.append(f"{Path(file).stem}.o")
            self.tools.run("gcc", [*FLAGS, "-c", file, "-o", objects[-1]], self.sources)
        self.tools.run("ld", ["-r", "-o", made, *objects, "kope_kernels.o"], self.sources)
        for each in objects:
            (self.sources / each).unlink()
        missing = [s for s in sorted(self.tools.undefined(made)) if s.startswith(_OF_TVM)]
        if missing:
            raise KopeError(
                f"{self.name}: its kernels call TVM's runtime, which a C library has not: "
                f"{', '.join(missing)}; `kope compile` builds such a model"
            )
        kept = [f"--keep-global-symbol={each}" for each in self.exported(plan)]
        self.tools.run("objcopy", [*kept, made], self.sources)

    def exported(self, plan: Plan) -> tuple[str, ...]:
        """The symbols that a user sees."""
        names = ("made_by", "message", "set_threads", *(each.name for each in plan.functions))
        return tuple(f"{self.name}_{each}" for each in names)


def _features(manifest: Manifest) -> Sequence[object]:
    found = manifest.tvm_target.get("mattr")
    return found if isinstance(found, (list, tuple)) else ()


def _once(define: str) -> str:
    """A compiler's option may say it otherwise."""
    return f"#ifndef {define.split()[1]}\n{define}\n#endif"
