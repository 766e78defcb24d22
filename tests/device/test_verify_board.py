# SPDX-License-Identifier: Apache-2.0
"""`kope verify` finds what TVM's own RISC-V intrinsics put into stock work_dirs (case B23)."""

from __future__ import annotations

from pathlib import Path

import pytest
import tvm
from tvm.s_tir import Schedule
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.tensor_intrin import riscv_cpu
from tvm.script import tirx as T

from kope_tvm.verification import verify_work_dir

pytestmark = pytest.mark.device

K1 = tvm.target.Target("riscv/licheepi3a")
DOT = "rvv_dot_64f32_8x64f32_8f32"


@T.prim_func(s_tir=True)
def _rows_by_rows(
    A: T.Buffer((16, 64), "float32"),
    B: T.Buffer((8, 64), "float32"),
    C: T.Buffer((16, 8), "float32"),
) -> None:
    T.func_attr({"global_symbol": "main"})
    for i, j, k in T.grid(16, 8, 64):
        with T.sblock("matmul"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vj, vk]


def _tensorized() -> Schedule:
    riscv_cpu.register_riscv_intrinsics(K1)
    sch = Schedule(tvm.IRModule({"main": _rows_by_rows}))
    block = sch.get_sblock("matmul")
    _, j, _ = sch.get_loops(block)
    sch.decompose_reduction(block, j)
    sch.tensorize(j, DOT)
    return sch


def _blocked() -> Schedule:
    sch = Schedule(tvm.IRModule({"main": _rows_by_rows}))
    _, j, k = sch.get_loops(sch.get_sblock("matmul"))
    sch.reorder(k, j)
    return sch


def test_the_dot_that_ignores_its_offset_is_wrong_and_the_plain_schedule_right(
    tmp_path: Path,
) -> None:
    database = ms.database.JSONDatabase(work_dir=str(tmp_path))
    mod = tvm.IRModule({"main": _rows_by_rows})
    workload = database.commit_workload(mod)
    info = ms.arg_info.ArgInfo.from_entry_func(mod)
    for secs, sch in ((1e-6, _tensorized()), (2e-6, _blocked())):
        record = ms.database.TuningRecord(sch.trace, workload, [secs], K1, info)
        database.commit_tuning_record(record)
    found = verify_work_dir(tmp_path, lambda _: None)
    verdicts = {check.secs: (check.verdict, check.code) for check in found.records}
    assert verdicts == {1e-6: ("wrong", "E_INTRINSIC"), 2e-6: ("right", "")}
