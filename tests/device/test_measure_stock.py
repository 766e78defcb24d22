# SPDX-License-Identifier: Apache-2.0
"""Stock MetaSchedule tuning through kope's builder and runner."""

from __future__ import annotations

import logging
from pathlib import Path

import tvm
from tvm.s_tir import meta_schedule as ms
from tvm.script import tirx as T

from kope_tvm.measure import MeasureConfig, Pool
from kope_tvm.measure.builder_runner import KopeBuilder, KopeRunner
from kope_tvm.target import TargetSpec


@T.prim_func(s_tir=True)
def _scale(A: T.Buffer((128, 128), "float32"), B: T.Buffer((128, 128), "float32")) -> None:
    T.func_attr({"global_symbol": "main"})
    for i, j in T.grid(128, 128):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)


def test_stock_tuning_fills_its_database(tmp_path: Path) -> None:
    mod = tvm.IRModule({"main": _scale})
    spec = TargetSpec("host", {"kind": "llvm", "num-cores": 2})
    config = MeasureConfig(repeat=1, min_repeat_ms=5)
    with Pool(spec, config, logging.getLogger(__name__)) as pool:
        database = ms.tune_tir(
            mod,
            tvm.target.Target(dict(spec.tvm_target)),
            str(tmp_path),
            max_trials_global=4,
            num_trials_per_iter=4,
            builder=KopeBuilder(),
            runner=KopeRunner(pool, mod),
            cost_model="random",
            num_tuning_cores=1,
        )
    records = database.get_all_tuning_records()
    assert 1 <= len(records) <= 4
    assert all(0 < float(secs) < 1 for record in records for secs in record.run_secs)
    assert list(Path(tmp_path).glob("database_tuning_record.json"))
