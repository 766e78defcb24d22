# SPDX-License-Identifier: Apache-2.0
"""What the tests of exported C share: how to make, build and call it."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm.s_tir import Schedule
from tvm.s_tir import meta_schedule as ms

from kope_tvm.exporters.c import C
from kope_tvm.exporting import exportable
from kope_tvm.machine import load_target
from kope_tvm.model import Model, extract_tasks

PLAIN_LIBC = {"_GLOBAL_OFFSET_TABLE_", "__tls_get_addr", "aligned_alloc", "free", "memmove"}
THREADS = {
    "pthread_cond_broadcast",
    "pthread_cond_signal",
    "pthread_cond_wait",
    "pthread_create",
    "pthread_join",
    "pthread_mutex_lock",
    "pthread_mutex_trylock",
    "pthread_mutex_unlock",
}
WARNINGS = ("-std=c11", "-O1", "-g", "-Wall", "-Wextra", "-Werror")
QEMU = "qemu-riscv64"
RISCV_CC = "riscv64-linux-gnu-gcc"
TWO_LAYERS = """
from tvm.script import ir as I, relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((8, 4), "float32"), w: R.Tensor((4, 4), "float32")):
        with R.dataflow():
            h = R.nn.relu(R.matmul(x, w))
            s = R.add(R.matmul(h, w), R.const(0.5, "float32"))
            y = R.nn.softmax(s)
            R.output(h, y)
        return (y, h, x, y)
"""
TWO_FUNCTIONS = """
from tvm.script import ir as I, tirx as T

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((8,), "int8"), B: T.Buffer((8,), "int32")):
        for i in range(8):
            with T.sblock("add"):
                v = T.axis.spatial(8, i)
                B[v] = T.Cast("int32", A[v]) + 1

    @T.prim_func(s_tir=True)
    def twice(A: T.Buffer((8,), "float16"), B: T.Buffer((8,), "float16")):
        for i in range(8):
            with T.sblock("twice"):
                v = T.axis.spatial(8, i)
                B[v] = A[v] * T.float16(2)
"""


def exported(
    model: Model, out: Path, *, target: str = "host", work_dir: Path | None = None, name: str = "k"
) -> Path:
    out.mkdir(parents=True, exist_ok=True)
    found = exportable(model, load_target(target), work_dir)
    C(name, found.evidence).export(found.artifact, out)
    return out


def parallel_records(model: Model, work_dir: Path) -> Path:
    """A stock database with the outermost loop of every block in parallel."""
    work_dir.mkdir()
    database = ms.database.JSONDatabase(work_dir=str(work_dir))
    spec = load_target("host")
    for _, mod, _ in extract_tasks(model, spec):
        sch = Schedule(mod)
        for block in sch.get_child_blocks(sch.get_sblock("root")):
            sch.parallel(sch.get_loops(block)[0])
        args = ms.arg_info.ArgInfo.from_prim_func(mod["main"])
        workload = database.commit_workload(mod)
        target = tvm.target.Target(dict(spec.tvm_target))
        database.commit_tuning_record(
            ms.database.TuningRecord(sch.trace, workload, [1e-3], target, args)
        )
    return work_dir


def run(*command: object, cwd: Path, **environment: str) -> str:
    done = subprocess.run(
        [str(each) for each in command],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def shared(folder: Path, name: str = "k") -> ctypes.CDLL:
    run("gcc", "-shared", "-o", "lib.so", f"lib/{name}.o", "-lm", "-pthread", cwd=folder)
    return ctypes.CDLL(str(folder / "lib.so"))


def aligned(array: np.ndarray) -> np.ndarray:
    room = np.zeros(array.nbytes + 64, np.uint8)
    begin = -room.ctypes.data % 64
    made = room[begin : begin + array.nbytes].view(array.dtype).reshape(array.shape)
    made[...] = array
    return made


def call(library: ctypes.CDLL, arrays: Sequence[np.ndarray], function: str = "k_run") -> int:
    return int(getattr(library, function)(*(ctypes.c_void_p(a.ctypes.data) for a in arrays)))


def need_riscv() -> None:
    for tool, package in ((RISCV_CC, "gcc-riscv64-linux-gnu"), (QEMU, "qemu-user")):
        if not shutil.which(tool):
            pytest.skip(f"no {tool} on the path; Debian: apt install {package}")


def emulator(vlen_bits: int) -> str:
    return f"{QEMU} -cpu rv64,v=true,vlen={vlen_bits},elen=64,vext_spec=v1.0"
