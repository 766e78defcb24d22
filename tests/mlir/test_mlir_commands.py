# SPDX-License-Identifier: Apache-2.0
"""`kope mlir` as typed: an MLIR file tuned, its script written, and run by MLIR's own tool."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

pytest.importorskip("mlir")

from kope_tvm.cli import main


def kope(*args: object) -> str:
    done = CliRunner().invoke(main, [str(each) for each in args])
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture(scope="module")
def tuned(data_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tuned")
    kope("mlir", "tune", data_dir / "matmul.mlir", "--target", "host", "--trials", 16,
         "--work-dir", folder, "--proposer", "experience", "--memory", folder / "memory.sqlite")  # fmt: skip
    return folder


@pytest.mark.slow
def test_exported_script_runs_in_mlir_opt(tuned: Path, data_dir: Path, tmp_path: Path) -> None:
    script = tmp_path / "script.mlir"
    said = kope("mlir", "export", data_dir / "matmul.mlir", "--target", "host",
                "--work-dir", tuned, "-o", script)  # fmt: skip
    assert "of MLIR's default lowering" in said
    tool = shutil.which("mlir-opt-22")
    if tool is None:
        pytest.skip("no mlir-opt-22: apt-get install mlir-22-tools")
    done = subprocess.run(
        [tool, data_dir / "matmul.mlir",
         f"--transform-preload-library=transform-library-paths={script}", "--transform-interpreter"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "scf.forall" in done.stdout or "scf.for" in done.stdout
    assert "vector.transfer_write" in done.stdout
    assert "linalg.matmul" not in done.stdout


@pytest.mark.slow
def test_the_exported_readme_works_as_written(tuned: Path, data_dir: Path, tmp_path: Path) -> None:
    if shutil.which("mlir-opt-22") is None:
        pytest.skip("no mlir-opt-22: apt-get install mlir-22-tools")
    kope("export", "mlir", data_dir / "matmul.mlir", "--target", "host",
         "--work-dir", tuned, "-o", tmp_path)  # fmt: skip
    (snippet,) = re.findall(r"```sh\n(.*?)```", (tmp_path / "README.md").read_text(), re.DOTALL)
    done = subprocess.run(
        ["sh", "-e", "-c", snippet], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "func.func @matmul" in done.stdout


@pytest.mark.slow
def test_applied_module_is_printed(tuned: Path, data_dir: Path) -> None:
    text = kope("mlir", "apply", data_dir / "matmul.mlir", "--target", "host", "--work-dir", tuned)
    assert "func.func @matmul" in text
    assert "linalg.matmul" not in text


def test_missing_work_dir_says_who_makes_it(data_dir: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(
        main,
        ["mlir", "export", str(data_dir / "matmul.mlir"), "--target", "host",
         "--work-dir", str(tmp_path / "none"), "-o", str(tmp_path / "x.mlir")],
    )  # fmt: skip
    assert done.exit_code == 2
    assert "`kope mlir tune` makes it" in done.output
