# SPDX-License-Identifier: Apache-2.0
"""`kope export` as typed, and its libraries on an emulated board."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from export_checks import PLAIN_LIBC, RISCV_CC, THREADS, emulator, exported, need_riscv, run

from kope_tvm import registry
from kope_tvm.c_package.toolset import Toolset
from kope_tvm.cli import main
from kope_tvm.machine import load_target, tvm_target
from kope_tvm.model import load_model
from kope_tvm.operators import parse_operator

pytestmark = pytest.mark.e2e

RIGHT = "run: matmul: 820 values, largest error"


def order(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["export", *arguments])


def test_scheduled_matmul_is_right_on_an_emulated_board(tmp_path: Path) -> None:
    need_riscv()
    spec = load_target("spacemit-k1")
    bound = parse_operator("op:matmul:m=64,n=64,k=64,dtype=float32")
    with tvm_target(spec):
        sch = registry.load("schedules", "matmul_rvv")(bound.tir()["main"], spec)[0]
    out = exported(load_model(sch.mod), tmp_path / "out", target="spacemit-k1", name="matmul")
    said = run(
        "make",
        "--no-print-directory",
        "check",
        f"CC={RISCV_CC}",
        "LDFLAGS=-static",
        f"RUN={emulator(256)}",
        cwd=out,
    )
    assert said.splitlines()[-1].endswith(": right")
    shorter = [*emulator(128).split(), "./main"]
    refused = subprocess.run(shorter, cwd=out, capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert "run: the vectors of this machine are shorter than" in refused.stderr
    listing = run("riscv64-linux-gnu-objdump", "-d", "src/kope_kernels.o", cwd=out)
    assert "vfmacc.vf" in listing
    undefined = Toolset("riscv64").undefined(out / "lib" / "matmul.o")
    assert undefined - PLAIN_LIBC - {"memset", "memcpy"} - THREADS == set()


def as_written(snippet: str, folder: Path) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    said: str = run("sh", "-e", "-c", snippet, cwd=folder, PATH=path)
    return said


def snippets(project_dir: Path, heading: str) -> tuple[str, ...]:
    """Of one section of docs/export.md."""
    text = (project_dir / "docs" / "export.md").read_text(encoding="utf-8")
    section = text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return tuple(re.findall(r"^```sh\n(.*?)^```$", section, re.MULTILINE | re.DOTALL))


def test_documented_commands_run_as_written(project_dir: Path, tmp_path: Path) -> None:
    if not shutil.which("cmake"):
        pytest.skip("no cmake on the path; Debian: apt install cmake")
    with_make, with_cmake, _ = snippets(project_dir, "C")
    for snippet in (with_make, with_cmake):
        assert RIGHT in as_written(snippet, tmp_path)


def test_documented_commands_for_a_board_run_as_written(project_dir: Path, tmp_path: Path) -> None:
    need_riscv()
    _, _, for_a_board = snippets(project_dir, "C")
    said = as_written(for_a_board, tmp_path)
    assert re.search(r"^run: T_softmax_norm: 911 values, .* allowed: right$", said, re.MULTILINE)


def test_documented_commands_for_onnxruntime_run_as_written(
    project_dir: Path, tmp_path: Path
) -> None:
    pytest.importorskip("onnxruntime", reason="needs the Python package onnxruntime")
    (snippet,) = snippets(project_dir, "ONNX Runtime")
    assert as_written(snippet, tmp_path).splitlines()[-1] == "64.0 64.0"


def test_command_says_what_it_wrote(tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = order("c", "op:relu:m=4,n=8", "--target", "host", "-o", str(out), "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["name"] == "relu"
    assert "lib/librelu.a" in found["files"]
    assert all((out / file).is_file() for file in found["files"])


def test_help_describes_every_kind() -> None:
    said = " ".join(order("--help").output.split())
    assert "c A C library that needs libc and libm only" in said
    assert "onnxruntime A library of custom operators that ONNX Runtime loads" in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("c", "op:relu:m=4,n=8", "--name", "int"), "--name 'int': expected a name that C accepts"),
        (("c", "op:relu:m=4,n=8", "--work-dir", "none"), "--work-dir none: no such folder"),
        (("pascal", "op:relu:m=4,n=8"), "'pascal' is not"),
    ],
)
def test_a_wrong_call_is_refused(arguments: tuple[str, ...], message: str, tmp_path: Path) -> None:
    done = order(*arguments, "--target", "host", "-o", str(tmp_path / "out"))
    assert done.exit_code == 2
    assert message in done.output
    assert not (tmp_path / "out").exists()
