# SPDX-License-Identifier: Apache-2.0
"""Whatever stands in exporters/ keeps its contract; a new file is tested without an edit."""

from __future__ import annotations

from pathlib import Path

import pytest

from kope_tvm import registry
from kope_tvm.compilation import compile_model
from kope_tvm.errors import UsageError
from kope_tvm.exporting import Exportable, exportable
from kope_tvm.machine import load_target
from kope_tvm.model import load_model


@pytest.fixture(scope="module")
def relu() -> Exportable:
    return exportable(load_model("op:relu:m=4,n=8"), load_target("host"), None)


@pytest.mark.parametrize("name", ["rectify", "runtime", "check"])
@pytest.mark.parametrize("kind", registry.names("exporters"))
def test_an_exporter_writes_what_it_says_into_its_folder_only(
    kind: str, name: str, relu: Exportable, tmp_path: Path
) -> None:
    (tmp_path / "out").mkdir()
    exporter = registry.load("exporters", kind)(name, relu.evidence)
    files = exporter.export(relu.artifact, tmp_path / "out")
    found = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert sorted(files) == sorted(found)
    assert any(name in path.name for path in found)


@pytest.mark.parametrize("kind", registry.names("exporters"))
def test_an_export_says_what_made_it(kind: str, relu: Exportable, tmp_path: Path) -> None:
    exporter = registry.load("exporters", kind)("rectify", relu.evidence)
    files = exporter.export(relu.artifact, tmp_path)
    texts = [path.read_bytes() for path in files]
    for line in relu.evidence.made_by:
        assert any(line.encode() in text for text in texts), line


@pytest.mark.parametrize("kind", registry.names("exporters"))
def test_an_export_is_the_same_twice(kind: str, relu: Exportable, tmp_path: Path) -> None:
    exporter = registry.load("exporters", kind)("rectify", relu.evidence)
    twice = [
        {path.name: path.read_bytes() for path in exporter.export(relu.artifact, tmp_path)}
        for _ in range(2)
    ]
    assert twice[0] == twice[1]


@pytest.mark.parametrize("kind", registry.names("exporters"))
def test_a_loaded_file_is_refused(kind: str, relu: Exportable, tmp_path: Path) -> None:
    built = compile_model(load_model("op:relu:m=4,n=8"), load_target("host"))
    loaded = type(built).load(built.save(tmp_path / "relu.so"))
    with pytest.raises(UsageError, match=r"loaded from a file.*compile the model again"):
        registry.load("exporters", kind)("rectify", relu.evidence).export(loaded, tmp_path)
