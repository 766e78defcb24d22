# SPDX-License-Identifier: Apache-2.0
"""`kope export c` as typed, and its libraries on an emulated board."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest
from export_checks import PLAIN_LIBC, RISCV_CC, THREADS, emulator, exported, need_riscv, run

from kope_tvm import registry
from kope_tvm.c_package.toolset import Toolset
from kope_tvm.machine import load_target, tvm_target
from kope_tvm.model import load_model
from kope_tvm.operators import parse_operator

pytestmark = pytest.mark.e2e


def test_scheduled_matmul_is_right_on_an_emulated_board(tmp_path: Path) -> None:
    need_riscv()
    spec = load_target("spacemit-k1")
    bound = parse_operator("op:matmul:m=64,n=64,k=64,dtype=float32")
    with tvm_target(spec):
        sch = registry.load("schedules", "matmul_rvv")(bound.tir()["main"], spec)[0]
    out = exported(load_model(sch.mod), tmp_path / "out", target="spacemit-k1", name="matmul")
    said = run(
        "make", "check", f"CC={RISCV_CC}", "LDFLAGS=-static", f"RUN={emulator(256)}", cwd=out
    )
    assert said.splitlines()[-1].endswith(": right")
    listing = run("riscv64-linux-gnu-objdump", "-d", "src/kernels.o", cwd=out)
    assert "vfmacc.vf" in listing
    undefined = Toolset("riscv64").undefined(out / "lib" / "matmul.o")
    assert undefined - PLAIN_LIBC - {"memset", "memcpy"} - THREADS == set()


def blocks(project_dir: Path) -> list[str]:
    text = (project_dir / "docs" / "export.md").read_text(encoding="utf-8")
    return re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("number", range(3))
def test_documented_commands_run_as_written(number: int, project_dir: Path, tmp_path: Path) -> None:
    snippet = blocks(project_dir)[number]
    if "riscv64" in snippet:
        need_riscv()
    if "cmake" in snippet and not shutil.which("cmake"):
        pytest.skip("no cmake on the path; Debian: apt install cmake")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    said = run("sh", "-e", "-c", snippet, cwd=tmp_path, PATH=path)
    assert ": right" in said
    assert "WRONG" not in said


def test_command_says_what_it_wrote(tmp_path: Path) -> None:
    out = tmp_path / "out"
    order = ("export", "c", "op:relu:m=4,n=8", "--target", "host", "-o", out, "--json")
    found = json.loads(run(sys.executable, "-m", "kope_tvm.cli", *order, cwd=tmp_path))
    assert found["name"] == "relu"
    assert "lib/librelu.a" in found["files"]
    assert all((out / file).is_file() for file in found["files"])
