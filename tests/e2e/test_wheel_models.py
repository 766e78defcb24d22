# SPDX-License-Identifier: Apache-2.0
"""Models as their users have them, out of wheels: read, lowered by kope, and right."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("onnx", reason="needs the Python package onnx")
pytest.importorskip("onnxruntime", reason="needs the Python package onnxruntime")

from kope_tvm.bench.models_zoo import BLOCK, ZOO, ZooModel
from kope_tvm.compilation import compile_model, verify_model
from kope_tvm.machine import load_target
from kope_tvm.model import load_model

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

OF_WHEELS = [zoo for zoo in ZOO if zoo.name != BLOCK]


@pytest.mark.parametrize("zoo", OF_WHEELS, ids=lambda zoo: zoo.name)
def test_a_wheels_model_equals_onnx_runtime(
    zoo: ZooModel, project_dir: Path, tmp_path: Path
) -> None:
    file = project_dir / "build" / "models" / zoo.file
    if not file.is_file():
        pytest.skip(f"no {zoo.file}: make models")
    model = load_model(file, dims=zoo.dims)
    check = verify_model(model, compile_model(model, load_target("host"), tmp_path), seeds=1)
    assert check.ok, check
    assert check.onnxruntime is not None
