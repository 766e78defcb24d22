# SPDX-License-Identifier: Apache-2.0
"""What the documents say to type works as written, block after block in one folder."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx", reason="needs the Python package onnx")

from onnx_graph import Graph

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

DOCS = Path(__file__).parents[2] / "docs"
GUIDES = [*sorted((DOCS / "guides").glob("*.md")), DOCS / "ggml.md", DOCS / "mlir.md"]
BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)
NEEDS_SECS = 600


def small_model(folder: Path) -> None:
    graph = Graph(folder)
    x = graph.feed("x", np.ones((32, 64), np.float32))
    weight = graph.weight("weight", np.full((64, 48), 0.5, np.float32))
    graph.node("MatMul", [x, weight], ["product"])
    graph.node("Relu", ["product"], ["kept"])
    graph.node("Softmax", ["kept"], ["y"], axis=1)
    graph.save()


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.stem)
def test_a_guide_works_as_written(guide: Path, tmp_path: Path) -> None:
    if guide.stem == "mlir" and not shutil.which("mlir-opt-22"):
        pytest.skip("no mlir-opt-22: apt-get install mlir-22-tools")
    small_model(tmp_path)
    (tmp_path / "tests").symlink_to(Path(__file__).parents[1])
    tools = str(Path(sys.executable).parent)
    environment = dict(os.environ, PATH=f"{tools}{os.pathsep}{os.environ['PATH']}")
    blocks = BLOCK.findall(guide.read_text(encoding="utf-8"))
    assert blocks
    for number, (language, text) in enumerate(blocks):
        script = tmp_path / f"block{number}.{'py' if language == 'python' else 'sh'}"
        script.write_text(text, encoding="utf-8")
        call = [sys.executable] if language == "python" else ["bash", "-eu"]
        done = subprocess.run(
            [*call, script.name],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=NEEDS_SECS,
        )
        assert done.returncode == 0, f"{guide.name}, block {number}:\n{done.stdout}\n{done.stderr}"
