# SPDX-License-Identifier: Apache-2.0
"""A slice of suite kope53 through every ablation, with the model's stored words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kope_tvm.bench import ablations
from kope_tvm.cli import main

STUDY = Path(__file__).parents[1] / "golden" / "study"
SLICE = ("softmax:m=512", "layernorm:m=512", "depthwise_conv2d:n=1,ci=32")

pytestmark = [pytest.mark.slow, pytest.mark.e2e]


def bench(json_file: Path, *arguments: str) -> Result:
    suite = ["bench", "--suite", "kope53", "--turns", "3", "--json", str(json_file)]
    return CliRunner().invoke(main, [*suite, *arguments], catch_exceptions=False)


@pytest.mark.parametrize("words", SLICE)
def test_every_ablation_runs_beside_kope(words: str, tmp_path: Path) -> None:
    file = tmp_path / "slice.json"
    told = ["--only", words, "--against", "untuned", "--trials", "6"]
    ran = bench(file, *told, "--exchanges", str(STUDY), "--without", "all")
    assert ran.exit_code == 0, ran.output
    found = json.loads(file.read_text())
    (operator,) = found["operators"]
    labels = {f"kope, {ablations.load(name).label}" for name in ablations.names()}
    assert labels < set(operator["run_secs"])
    assert found["configuration"]["model"] == "replayed: study"
    assert operator["tuned"]["kope"]["talk"]["calls"] >= 1
    assert operator["tuned"]["kope, without repair"]["trials"] >= 1
    assert "model: replayed: study" in ran.output


def test_a_stopped_run_goes_on_and_a_done_one_is_only_told_again(tmp_path: Path) -> None:
    file = tmp_path / "two.json"
    told = ["--only", "rmsnorm", "--only", "column_mean", "--against", "onnxruntime"]
    assert bench(file, *told, "--shard", "1/2", "--trials", "2").exit_code == 0
    began = json.loads(file.read_text())["operators"]
    ran = bench(file, *told, "--trials", "2")
    found = json.loads(file.read_text())
    assert ran.exit_code == 0
    assert [line for line in ran.stderr.splitlines() if line.startswith("op:")] == [
        "op:column_mean:m=1024,n=1024,dtype=float32"
    ]
    assert found["operators"][0] == began[0]
    assert set(found["geomean"]) == {"kope@8", "kope, warm@4", "onnxruntime", "untuned"}
    assert found["against"][0]["num_operators"] == 2
