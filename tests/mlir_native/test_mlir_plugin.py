# SPDX-License-Identifier: Apache-2.0
"""The pass plugin where it can be loaded: in mlir-opt, and in Python's PassManager."""

import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

HERE = Path(__file__).parent
LIT = sorted(HERE.glob("*.mlir"))
PYTHON = """
import sys
from pathlib import Path
from kope_tvm.mlir.native import load_plugin
assert load_plugin(Path(sys.argv[1])).startswith("22.")
from kope_tvm.mlir.bindings import ir, passmanager
with ir.Context():
    module = ir.Module.parse(Path(sys.argv[2]).read_text())
    pipeline = f"builtin.module(kope-annotate{{experience={sys.argv[3]}}},kope-apply,canonicalize)"
    passmanager.PassManager.parse(pipeline).run(module.operation)
    sys.stdout.write(str(module))
"""


def tool(name: str) -> str:
    found = shutil.which(f"{name}-22")
    if found is None:
        pytest.skip(f"no {name}-22: apt-get install mlir-22-tools llvm-22-tools")
    return found


def plugin(project_dir: Path, name: str) -> Path:
    path = project_dir / "build" / "mlir" / name
    if not path.exists():
        pytest.skip("no plugin: make mlir-plugin (needs libmlir-22-dev)")
    return path


def commands(file: Path, project_dir: Path) -> list[list[str]]:
    """The piped commands of a file's RUN line."""
    line = file.read_text().splitlines()[0].removeprefix("// RUN: ")
    line = line.replace("%plugin", str(plugin(project_dir, "libkope_mlir.so")))
    line = line.replace("%experience", str(HERE / "experience.json")).replace("%s", str(file))
    return [shlex.split(part) for part in line.split(" | ")]


def check(file: Path, text: str) -> None:
    found = subprocess.run(
        [tool("FileCheck"), str(file)], input=text, capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr


def opt(words: Sequence[str]) -> str:
    """What mlir-opt says, on stderr too where it is to fail."""
    is_to_fail = words[0] == "not"
    call = [tool("mlir-opt"), *[each for each in words if each not in ("not", "mlir-opt", "2>&1")]]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    assert bool(done.returncode) is is_to_fail, done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("file", LIT, ids=lambda file: file.stem)
def test_in_mlir_opt(file: Path, project_dir: Path) -> None:
    first, _ = commands(file, project_dir)
    check(file, opt(first))


def test_in_pythons_pass_manager(project_dir: Path) -> None:
    pytest.importorskip("mlir")
    library = plugin(project_dir, "libkope_mlir_python.so")
    file = HERE / "apply.mlir"
    words = [str(library), str(file), str(HERE / "experience.json")]
    done = subprocess.run(
        [sys.executable, "-c", PYTHON, *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    check(file, done.stdout)


def test_the_other_ones_plugin_is_refused_in_words(project_dir: Path) -> None:
    pytest.importorskip("mlir")
    wrong = plugin(project_dir, "libkope_mlir.so")
    words = [str(wrong), str(HERE / "apply.mlir"), str(HERE / "experience.json")]
    done = subprocess.run(
        [sys.executable, "-c", PYTHON, *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "not a plugin for MLIR's Python bindings" in done.stderr
