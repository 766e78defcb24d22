# SPDX-License-Identifier: Apache-2.0
"""A C library, and the C that puts its functions into graphs of ggml as custom operators."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from shutil import copyfile

from kope_tvm import c_package, ggml_package
from kope_tvm.artifact import Artifact
from kope_tvm.c_package.library import FLAGS, Library
from kope_tvm.c_package.lower import lowered
from kope_tvm.c_package.plan import Plan
from kope_tvm.c_package.source import Source
from kope_tvm.c_package.toolset import HOST, Toolset
from kope_tvm.evidence import Evidence
from kope_tvm.ggml_package.operator import operator_of
from kope_tvm.ggml_package.plug import Plug
from kope_tvm.ggml_package.project import Project
from kope_tvm.ggml_package.sharing import is_shared, unaligned

_C_TEXTS = Path(c_package.__file__).parent
_TEXTS = Path(ggml_package.__file__).parent
_TASKS = 64
"""Of a parallel loop: what so many threads share evenly, and more of them do not."""
_SHARES = """\
// The calling thread's next calls compute what is `number` of `count` equal parts of the last
// parallel loop, and all that comes before it.
void {name}_share(int number, int count);
"""


class Ggml:
    """Header, object, static and shared library, plug, examples, CMake project and README."""

    def __init__(self, name: str, evidence: Evidence) -> None:
        """`name` is an identifier; all that the library shows begins with it."""
        self._name = name
        self._evidence = evidence

    def export(self, artifact: Artifact, out_dir: Path) -> tuple[Path, ...]:
        """Write all of it; UsageError names what is no operator of ggml."""
        out_dir = out_dir.resolve()  # Tools run in folders of it.
        plan = lowered(artifact)
        operators = tuple(
            operator_of(each, is_shared=is_shared(each, plan)) for each in plan.functions
        )
        plan = replace(plan, kernels=unaligned(plan.kernels))
        machine = str(artifact.target.get("mtriple", "")).partition("-")[0] or HOST
        library = self._library(plan, artifact, machine, out_dir)
        _link(library, plan, _folder(out_dir, "lib"))
        plug = Plug(self._name, operators, self._evidence.made_by)
        folder = _folder(out_dir, "ggml")
        _write(folder / f"{self._name}_ggml.h", plug.header())
        _write(folder / f"{self._name}_ggml.c", plug.code())
        self._write_example(plug, Project(plug, machine), _folder(out_dir, "example"))
        _write(out_dir / "README.md", Project(plug, machine).readme())
        return tuple(sorted(path for path in out_dir.rglob("*") if path.is_file()))

    def _library(self, plan: Plan, artifact: Artifact, machine: str, out_dir: Path) -> Library:
        """Sources and kernels, not yet linked."""
        sources = _folder(out_dir, "src")
        made_by = self._evidence.made_by
        source = Source(self._name, plan, made_by, alignment_bytes=1, threads=_SHARES)
        _write(_folder(out_dir, "include") / f"{self._name}.h", source.header())
        _write(sources / f"{self._name}.c", source.code())
        for name in ("kope_runtime.c", "kope_runtime.h"):
            copyfile(_C_TEXTS / name, sources / name)
        copyfile(_TEXTS / "kope_share.c", sources / "kope_share.c")
        share = f"KOPE_SHARE {self._name}_share"
        defines = ("KOPE_HOST_LOOPS", "KOPE_POINTER_ALIGNMENT 1", share)
        library = Library(self._name, Toolset(machine), sources, defines)
        library.compile_kernels(plan, artifact.target)
        tvm_target = {**artifact.manifest.tvm_target, "num-cores": _TASKS}
        library.describe_machine(replace(artifact.manifest, tvm_target=tvm_target))
        return library

    def _write_example(self, plug: Plug, project: Project, folder: Path) -> None:
        _write(folder / "main.c", plug.program(self._evidence.examples))
        _write(folder / "CMakeLists.txt", project.cmake_lists())
        copyfile(_C_TEXTS / "kope_check.h", folder / "kope_check.h")
        if project.compared is not None:
            _write(folder / "kope_compare.h", project.compare_header())
            copyfile(_TEXTS / "compare.c", folder / "compare.c")


def _link(library: Library, plan: Plan, folder: Path) -> None:
    """An object that shows its C functions only, and the two libraries of it."""
    tools, name = library.tools, library.name
    inner, made = library.sources / "kope_inner.o", folder / f"{name}.o"
    library.link(plan, inner)
    tools.run("gcc", [*FLAGS, "-c", "kope_share.c", "-o", "kope_share.o"], library.sources)
    tools.run("ld", ["-r", "-o", made, inner.name, "kope_share.o"], library.sources)
    shown = [*library.exported(plan), f"{name}_share"]
    shown.remove(f"{name}_set_threads")
    tools.run("objcopy", [f"--keep-global-symbol={each}" for each in shown] + [made.name], folder)
    for each in (inner, library.sources / "kope_share.o"):
        each.unlink()
    archive = made.with_name(f"lib{name}.a")
    archive.unlink(missing_ok=True)
    tools.run("ar", ["rcsD", archive.name, made.name], folder)
    tools.run("gcc", ["-shared", "-o", f"lib{name}.so", made.name, "-lm"], folder)


def _folder(out_dir: Path, *names: str) -> Path:
    found = out_dir.joinpath(*names)
    found.mkdir(parents=True, exist_ok=True)
    return found


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
