# SPDX-License-Identifier: Apache-2.0
"""A C library that needs libc and libm only (and threads, where a kernel is parallel)."""

from __future__ import annotations

from pathlib import Path
from shutil import copyfile

from kope_tvm import c_package
from kope_tvm.artifact import Artifact
from kope_tvm.c_package.example import program
from kope_tvm.c_package.library import Library
from kope_tvm.c_package.lower import lowered
from kope_tvm.c_package.plan import Plan
from kope_tvm.c_package.project import Project
from kope_tvm.c_package.source import Source
from kope_tvm.c_package.toolset import HOST, Toolset
from kope_tvm.evidence import Evidence

_TEXTS = Path(c_package.__file__).parent


class C:
    """Header, object, static library, sources, example, CMake package and Makefile."""

    def __init__(self, name: str, evidence: Evidence) -> None:
        """`name` is an identifier; all that the library shows begins with it."""
        self._name = name
        self._evidence = evidence

    def export(self, artifact: Artifact, out_dir: Path) -> tuple[Path, ...]:
        """Write the library; its example is run where this machine can run it."""
        out_dir = out_dir.resolve()  # Tools run in folders of it.
        plan = lowered(artifact)
        machine = str(artifact.target.get("mtriple", "")).partition("-")[0] or HOST
        library = Library(self._name, Toolset(machine), _folder(out_dir, "src"))
        self._write_sources(plan, out_dir)
        library.compile_kernels(plan, artifact.target)
        library.describe_machine(artifact.manifest)
        made = _folder(out_dir, "lib") / f"{self._name}.o"
        library.link(plan, made)
        archive = made.with_name(f"lib{self._name}.a")
        archive.unlink(missing_ok=True)
        library.tools.run("ar", ["rcsD", archive.name, made.name], made.parent)
        project = Project(self._name, machine, library.is_parallel)
        self._write_project(project, plan, out_dir)
        return tuple(sorted(path for path in out_dir.rglob("*") if path.is_file()))

    def _write_sources(self, plan: Plan, out_dir: Path) -> None:
        source = Source(self._name, plan, self._evidence.made_by)
        _write(_folder(out_dir, "include") / f"{self._name}.h", source.header())
        _write(out_dir / "src" / f"{self._name}.c", source.code())
        for name in ("kope_runtime.c", "kope_runtime.h"):
            copyfile(_TEXTS / name, out_dir / "src" / name)

    def _write_project(self, project: Project, plan: Plan, out_dir: Path) -> None:
        config = _folder(out_dir, "lib", "cmake", self._name) / f"{self._name}Config.cmake"
        _write(config, project.cmake_config())
        _write(out_dir / "Makefile", project.makefile())
        example = _folder(out_dir, "example")
        _write(example / "main.c", program(self._name, plan, self._evidence.examples))
        _write(example / "CMakeLists.txt", project.cmake_example())
        copyfile(_TEXTS / "kope_check.h", example / "kope_check.h")


def _folder(out_dir: Path, *names: str) -> Path:
    found = out_dir.joinpath(*names)
    found.mkdir(parents=True, exist_ok=True)
    return found


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
