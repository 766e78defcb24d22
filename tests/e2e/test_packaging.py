# SPDX-License-Identifier: Apache-2.0
"""What is built holds what the checkout reaches through symlinks, and works once installed."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

LINKED = {"memory": (".py", ".xz"), "schedules": (".py",), "targets": (".toml",)}


@pytest.fixture(scope="module")
def dist_dir(project_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An sdist, and the wheel built from it and not from the checkout."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "build", "--outdir", folder, project_dir], check=True, timeout=600
    )
    return folder


@pytest.fixture(scope="module")
def wheel_names(dist_dir: Path) -> list[str]:
    (wheel,) = dist_dir.glob("kope_tvm-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def test_wheel_fits_every_python(dist_dir: Path) -> None:
    (wheel,) = dist_dir.glob("kope_tvm-*.whl")
    assert wheel.name.split("-")[2:4] == ["py3", "none"]


@pytest.mark.parametrize("folder", LINKED)
def test_wheel_holds_the_files_behind_the_symlinks(
    folder: str, wheel_names: list[str], project_dir: Path
) -> None:
    expected = {
        f"kope_tvm/{path.relative_to(project_dir).as_posix()}"
        for path in (project_dir / folder).rglob("*")
        if path.suffix in LINKED[folder]
    }
    assert expected
    assert expected <= set(wheel_names)


def test_wheel_holds_the_library_the_entry_point_and_nothing_foreign(
    wheel_names: list[str],
) -> None:
    assert {"kope_tvm/lib/libkope_passes.so", "kope_tvm/prompt/contract.md"} <= set(wheel_names)
    server = "kope_tvm/device/server"
    assert {f"{server}/main.cc", f"{server}/overlay/src/support/arena.h"} <= set(wheel_names)
    assert any(name.endswith(".dist-info/entry_points.txt") for name in wheel_names)
    assert {name.split("/")[0].split("-")[0] for name in wheel_names} == {"kope_tvm"}
    assert not [name for name in wheel_names if name.endswith(".pyc")]


def test_sdist_holds_the_sources_of_the_library(dist_dir: Path) -> None:
    (sdist,) = dist_dir.glob("kope_tvm-*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.split("/", 1)[-1] for name in archive.getnames()}
    assert {"CMakeLists.txt", "passes/ffi/register.cc", "pyproject.toml", "LICENSE"} <= names


def test_installed_wheel_finds_its_library(dist_dir: Path, tmp_path: Path) -> None:
    (wheel,) = dist_dir.glob("kope_tvm-*.whl")
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", tmp_path, wheel],
        check=True,
    )
    code = "from kope_tvm.features import features; import tvm; print(features(tvm.IRModule({})))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(tmp_path), "PATH": ""},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "op_class='other'" in done.stdout
