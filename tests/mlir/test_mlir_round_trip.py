# SPDX-License-Identifier: Apache-2.0
"""An operator tuned by TVM, its schedule said to MLIR, and both kernels timed on one core."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("mlir")

from linalg_cases import exact, inputs

from kope_tvm.compilation import compile_model
from kope_tvm.machine import load_target
from kope_tvm.mlir.execution import run, time_calls
from kope_tvm.mlir.exporting import export_script
from kope_tvm.model import load_model
from kope_tvm.tuning import tune

SPEC = "op:matmul:m=512,n=512,k=512,dtype=float32"


@pytest.mark.slow
def test_tuned_operator_is_as_fast_in_mlir(data_dir: Path, tmp_path: Path) -> None:
    host = load_target("host")
    one_core = replace(host, tvm_target={**host.tvm_target, "num-cores": 1})
    work_dir, file = tmp_path / "work", data_dir / "matmul.mlir"
    tune(SPEC, one_core, work_dir, 16, proposer="experience", memory=str(tmp_path / "memory.sqlite"), seed=1)  # fmt: skip
    artifact = compile_model(load_model(SPEC), one_core, work_dir)
    script = export_script(file, one_core, work_dir)
    arrays = inputs([(512, 512), (512, 512)])
    (found,) = run(file.read_text(), arrays, script=script.text)
    np.testing.assert_allclose(found, exact(np.matmul, arrays), rtol=1e-3, atol=1e-3)
    named = {spec.name: array for spec, array in zip(artifact.inputs, arrays, strict=True)}
    tvm_secs, mlir_secs = list[float](), list[float]()
    for _ in range(3):  # In turns: the machine may be busy in one of them.
        tvm_secs += artifact.time(named, number=3)
        mlir_secs += time_calls(file.read_text(), arrays, script=script.text)
    assert min(mlir_secs) <= 1.5 * min(tvm_secs)
