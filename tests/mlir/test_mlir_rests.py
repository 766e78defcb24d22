# SPDX-License-Identifier: Apache-2.0
"""A tile that leaves a rest, on a machine without masks: the operation comes in two."""

from __future__ import annotations

from pathlib import Path

import pytest
import tvm

pytest.importorskip("mlir")

from kope_tvm.candidate import Candidate
from kope_tvm.machine import load_target
from kope_tvm.mlir.exporting import Header, Scheduled, right_script
from kope_tvm.mlir.importing import import_text
from kope_tvm.proposal import Decisions
from kope_tvm.workbench import Workbench, make_task

AVX2 = load_target("x86-avx2")


def test_rows_by_six_of_sixty_four(data_dir: Path) -> None:
    text = (data_dir / "matmul.mlir").read_text(encoding="utf-8").replace("512", "64")
    imported = import_text(text, "matmul.mlir")
    untouched, sources = imported.mod["matmul"], imported.sources["matmul"]
    bench = Workbench(make_task("matmul", tvm.IRModule({"main": untouched}), AVX2))
    scripts = []
    for space in bench.rule_spaces:
        made = bench.apply(Decisions(space.name, space.trace))
        assert isinstance(made, Candidate)
        tuned = made.sch.mod["main"]
        one = Scheduled("matmul", text, sources, untouched, tuned, "decisions")
        # raises where the script does not apply or computes something else
        scripts.append(right_script([one], Header("matmul.mlir", AVX2, ("matmul",))).text)
    split = [text for text in scripts if "transform.structured.split" in text]
    assert split
    assert all("after 60 {dimension = 0}" in text for text in split)
    assert not any("masks" in text for text in scripts)
