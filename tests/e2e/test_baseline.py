# SPDX-License-Identifier: Apache-2.0
"""Where nothing beats the compiler's own code, the compiler's own code stays, for everyone."""

from __future__ import annotations

import json
from pathlib import Path

import tvm
import tvm_ffi
from tvm.s_tir import meta_schedule as ms

from kope_tvm.compilation import compile_model
from kope_tvm.machine import load_target, tvm_target
from kope_tvm.model import load_model
from kope_tvm.records import Records
from kope_tvm.workbench import Workbench, make_task


def test_an_unbeaten_function_is_on_record_as_it_is(tmp_path: Path) -> None:
    spec = load_target("host")
    model = load_model("op:matmul:m=8,n=8,k=8,dtype=float32")
    bench = Workbench(make_task("matmul", model.mod, spec))
    records = Records(tmp_path, spec)
    records.open_workload(bench.mod)
    slow = next(iter(bench.rule_spaces))
    sch = tvm.s_tir.Schedule(bench.mod)
    tvm.s_tir.Trace.apply_json_to_schedule(json.loads(slow.trace), sch)
    records.commit(bench.task.key, sch.trace, (2.0,))
    assert compile_model(model, spec, tmp_path).coverage.hit == ("main",)

    records.commit(bench.task.key, bench.untouched, (1.0,))
    stock = ms.database.JSONDatabase(work_dir=str(tmp_path))
    best = stock.query_schedule(bench.mod, tvm_target(spec), "main")
    assert tvm_ffi.structural_equal(best.mod, bench.mod)
    assert compile_model(model, spec, tmp_path).coverage.fallback == ("main",)
