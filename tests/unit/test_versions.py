# SPDX-License-Identifier: Apache-2.0
"""The version check: the pinned pair passes, anything else is a readable error."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kope_tvm import versions
from kope_tvm.errors import VersionError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def fake_distribution(folder: Path, name: str, version: str) -> None:
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")


def test_pins_are_those_of_the_package(project_dir: Path) -> None:
    project = tomllib.loads((project_dir / "pyproject.toml").read_text())
    pinned = {f"{name}=={version}" for name, version in versions.PINS}
    assert pinned <= set(project["project"]["dependencies"])
    assert "apache-tvm-ffi==" + dict(versions.PINS)["apache-tvm-ffi"] in set(
        project["build-system"]["requires"]
    )


def test_installed_pair_passes() -> None:
    versions.check_versions()


def test_wrong_pair_names_given_expected_and_fix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_distribution(tmp_path, "apache-tvm-ffi", "0.1.15.post2")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(VersionError) as caught:
        versions.check_versions()
    message = str(caught.value)
    assert "apache-tvm-ffi 0.1.15.post2, expected apache-tvm-ffi 0.1.14.post1" in message
    assert "pip install apache-tvm==0.27.0.post1 apache-tvm-ffi==0.1.14.post1" in message


def test_missing_package_is_said_to_be_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    with pytest.raises(VersionError, match=r"apache-tvm is missing, expected apache-tvm 0\.27"):
        versions.check_versions()


def test_version_error_is_an_import_error() -> None:
    assert issubclass(VersionError, ImportError)
