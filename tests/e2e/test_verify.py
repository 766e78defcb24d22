# SPDX-License-Identifier: Apache-2.0
"""`kope verify` finds what is wrong in any MetaSchedule work_dir."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tvm
from click.testing import CliRunner, Result
from tvm.s_tir import Schedule, TensorIntrin
from tvm.s_tir import meta_schedule as ms
from tvm.script import tirx as T

from kope_tvm.cli import main
from kope_tvm.machine import load_target
from kope_tvm.model import extract_tasks, load_model
from kope_tvm.verification import Verification, verify_work_dir

pytestmark = pytest.mark.e2e

HOST = load_target("host")
MATMUL = "op:matmul:m=64,n=64,k=64,dtype=float32"
BAD_INTRIN = "kope_test_dot_that_ignores_the_offset"


@T.prim_func(s_tir=True)
def _dot(a: T.handle, b: T.handle, c: T.handle) -> None:
    A = T.match_buffer(a, (64,), "float32", offset_factor=1)
    B = T.match_buffer(b, (64,), "float32", offset_factor=1)
    C = T.match_buffer(c, (1,), "float32", offset_factor=1)
    with T.sblock("root"):
        T.reads(C[0], A[0:64], B[0:64])
        T.writes(C[0])
        for i in range(64):
            with T.sblock("update"):
                vi = T.axis.reduce(64, i)
                C[0] = C[0] + A[vi] * B[vi]


@T.prim_func(s_tir=True)
def _dot_of_half(a: T.handle, b: T.handle, c: T.handle) -> None:
    A = T.match_buffer(a, (64,), "float32", offset_factor=1)
    B = T.match_buffer(b, (64,), "float32", offset_factor=1)
    C = T.match_buffer(c, (1,), "float32", offset_factor=1)
    with T.sblock("root"):
        T.reads(C[0], A[0:64], B[0:64])
        T.writes(C[0])
        for i in range(32):
            C[0] = C[0] + A[i] * B[i]


@T.prim_func(s_tir=True)
def _rows_by_rows(
    A: T.Buffer((64, 64), "float32"),
    B: T.Buffer((64, 64), "float32"),
    C: T.Buffer((64, 64), "float32"),
) -> None:
    T.func_attr({"global_symbol": "main"})
    for i, j, k in T.grid(64, 64, 64):
        with T.sblock("matmul"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vj, vk]


def _untuned(spec: str) -> tvm.IRModule:
    ((_, mod, _),) = extract_tasks(load_model(spec), HOST)
    return mod


class _WorkDir:
    """A stock database, written by stock's own calls."""

    def __init__(self, path: Path, mod: tvm.IRModule, target: dict[str, object]) -> None:
        self._mod, self._target = mod, tvm.target.Target(target)
        self._database = ms.database.JSONDatabase(work_dir=str(path))
        self._workload = self._database.commit_workload(mod)

    def schedule(self) -> Schedule:
        return Schedule(self._mod)

    def commit(self, sch: Schedule, secs: float) -> None:
        info = ms.arg_info.ArgInfo.from_entry_func(self._mod)
        record = ms.database.TuningRecord(sch.trace, self._workload, [secs], self._target, info)
        self._database.commit_tuning_record(record)


def _right(work_dir: _WorkDir) -> Schedule:
    sch = work_dir.schedule()
    i, j, k = sch.get_loops(sch.get_sblock("matmul"))
    sch.reorder(i, k, j)
    sch.vectorize(sch.split(j, [None, 16])[1])
    return sch


def _narrow(work_dir: _WorkDir) -> Schedule:
    """A legal trace whose sums are float16."""
    sch = work_dir.schedule()
    block = sch.get_sblock("matmul")
    sch.cache_write(block, 0, "global")
    sch.unsafe_set_dtype(block, 0, "float16")
    return sch


def _ignoring(work_dir: _WorkDir) -> Schedule:
    """A legal trace of an intrinsic that does half of what it says."""
    sch = work_dir.schedule()
    block = sch.get_sblock("matmul")
    _, _, k = sch.get_loops(block)
    sch.decompose_reduction(block, k)
    sch.tensorize(k, BAD_INTRIN)
    return sch


def _say_nothing(_: str) -> None:
    pass


def _verified(path: Path) -> Verification:
    return verify_work_dir(path, _say_nothing)


def test_a_wrong_record_planted_among_right_ones_is_found(tmp_path: Path) -> None:
    TensorIntrin.register(BAD_INTRIN, _dot, _dot_of_half, override=True)
    mod = tvm.IRModule({"main": _rows_by_rows})
    work_dir = _WorkDir(tmp_path, mod, dict(HOST.tvm_target))
    work_dir.commit(_right(work_dir), 1e-4)
    work_dir.commit(_narrow(work_dir), 5e-5)
    work_dir.commit(_ignoring(work_dir), 2e-5)
    work_dir.commit(_right(work_dir), 1e10)
    found = _verified(tmp_path)
    assert [each.verdict for each in found.records] == ["right", "wrong", "wrong", "unchecked"]
    right, narrow, half, failed = found.records
    assert 0 < right.error < 1
    assert (narrow.code, half.code) == ("E_NUMERICS", "E_NUMERICS")
    assert narrow.error > 100
    assert half.error > narrow.error
    assert " at [" in half.reason
    assert failed.reason == "on record as failed"
    assert not found.ok


def _kope(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def test_the_command_prints_a_table_and_fails_where_one_is_wrong(tmp_path: Path) -> None:
    work_dir = _WorkDir(tmp_path, _untuned(MATMUL), dict(HOST.tvm_target))
    work_dir.commit(_right(work_dir), 1e-4)
    assert _kope("verify", str(tmp_path)).exit_code == 0
    work_dir.commit(_narrow(work_dir), 5e-5)
    told = _kope("verify", str(tmp_path))
    assert told.exit_code == 1
    assert "2 records: 1 right, 1 wrong, 0 broken, 0 unchecked" in told.stdout
    assert "2/2 main: wrong" in told.stderr
    as_json = _kope("verify", str(tmp_path), "--json")
    assert as_json.exit_code == 1
    records = json.loads(as_json.stdout)["records"]
    assert [record["verdict"] for record in records] == ["right", "wrong"]


def test_a_trace_that_no_longer_replays_is_broken_and_hides_no_other(tmp_path: Path) -> None:
    work_dir = _WorkDir(tmp_path, _untuned(MATMUL), dict(HOST.tvm_target))
    work_dir.commit(_right(work_dir), 1e-4)
    work_dir.commit(_right(work_dir), 2e-4)
    records = tmp_path / "database_tuning_record.json"
    first, second = records.read_text(encoding="utf-8").splitlines()
    lost = first.replace('"matmul"', '"no_such_block"', 1)
    records.write_text(f"{lost}\n{second}\n", encoding="utf-8")
    found = _verified(tmp_path)
    assert [each.verdict for each in found.records] == ["broken", "right"]
    assert found.records[0].code == "E_REPLAY"


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ({"kind": "llvm", "mtriple": "aarch64-linux-gnu", "num-cores": 8}, "aarch64"),
        ({"kind": "cuda", "arch": "sm_80"}, "target kind 'cuda' does not run here"),
    ],
)
def test_another_machines_records_are_named_and_not_checked(
    tmp_path: Path, target: dict[str, object], why: str
) -> None:
    work_dir = _WorkDir(tmp_path, _untuned(MATMUL), target)
    work_dir.commit(_right(work_dir), 1e-4)
    (record,) = _verified(tmp_path).records
    assert (record.verdict, record.code) == ("unchecked", "E_DEVICE")
    assert why in record.reason


def test_a_folder_without_a_database_is_a_readable_error(tmp_path: Path) -> None:
    told = _kope("verify", str(tmp_path))
    assert told.exit_code == 2
    assert "expected the work_dir of a MetaSchedule or kope tuning" in told.stderr
    assert _kope("verify", str(tmp_path / "none")).exit_code == 2
