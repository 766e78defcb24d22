# SPDX-License-Identifier: Apache-2.0
"""The door for PyTorch, in a process that has torch: TVM loads it wherever it is installed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
TORCH = ROOT / "build" / "torch"

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.skipif(not (TORCH / "torch").is_dir(), reason="needs PyTorch; make torch"),
]


def run(script: Path, *arguments: str) -> str:
    home = Path(arguments[0])
    paths = os.pathsep.join([str(TORCH), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, str(script), *arguments],
        env=dict(os.environ, PYTHONPATH=paths, KOPE_HOME=str(home / "home")),
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("torch")
    out = run(Path(__file__).with_name("torch_door.py"), str(folder))
    return [json.loads(line) for line in out.splitlines() if line.startswith("{")]


def test_an_example_is_made_of_tensors(said: list[dict[str, Any]]) -> None:
    assert said[0]["refused"].startswith("example: int given; expected tensors")


def test_parts_are_what_tvm_would_fuse(said: list[dict[str, Any]]) -> None:
    operators = [part[0] for part in said[1]["parts"]]
    assert operators == [
        ["aten.conv2d", "aten.batch_norm", "aten.relu", "aten.flatten"],
        ["aten.linear"],
        ["aten.softmax"],
        ["aten.linalg_svdvals"],
    ]


def test_what_tvm_does_not_know_stays_torchs(said: list[dict[str, Any]]) -> None:
    _, by, reason = said[1]["parts"][-1]
    assert by == "torch"
    assert "TVM cannot import it" in reason or "as a whole" in reason


def test_the_result_is_the_modules(said: list[dict[str, Any]]) -> None:
    assert set(said[1]["gaps"]) == {"scores", "spectrum"}
    assert max(said[1]["gaps"].values()) < 1e-5


def test_a_second_call_measures_nothing_anew(said: list[dict[str, Any]]) -> None:
    assert said[1]["once"] == said[1]["twice"] > 0


def test_wrong_kernels_are_refused(said: list[dict[str, Any]]) -> None:
    assert said[2]["right"] == ""
    assert "from float64" in said[2]["zeros"]
    assert "from float64" in said[2]["rough"]
    assert "input was written to" in said[2]["writes"]
    assert "float16" in said[2]["narrow"]
    assert "[4, 32]" in said[2]["short"]


def test_the_page_works_as_written(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "torch.md").read_text(encoding="utf-8")
    found = re.search(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert found is not None
    script = tmp_path / "page.py"
    script.write_text(found[1], encoding="utf-8")
    assert "aten.linear" in run(script, str(tmp_path))
