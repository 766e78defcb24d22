# SPDX-License-Identifier: Apache-2.0
"""Functions that misbehave on a board, and what the tests of boards share."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import tvm
from tvm.script import tirx as T
from tvm.support import cc

from kope_tvm.device.cross_compiler import TRIPLE
from kope_tvm.machine import load_target, tvm_target
from kope_tvm.target import TargetSpec

TARGET = "spacemit-k1"
RUN_SECS = 5.0
MEMORY_BYTES = 512 << 20

needs_emulator = pytest.mark.skipif(
    shutil.which("qemu-riscv64") is None or shutil.which(f"{TRIPLE}-g++") is None,
    reason=f"no qemu-riscv64 or {TRIPLE}-g++: apt install qemu-user g++-{TRIPLE}",
)


@T.prim_func(s_tir=True)
def double(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")) -> None:
    T.func_attr({"global_symbol": "main"})
    for i in T.vectorized(64):
        with T.sblock("B"):
            vi = T.axis.spatial(64, i)
            B[vi] = A[vi] * T.float32(2)


@T.prim_func(s_tir=True)
def triple(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")) -> None:
    T.func_attr({"global_symbol": "main"})
    for i in range(64):
        with T.sblock("B"):
            vi = T.axis.spatial(64, i)
            B[vi] = A[vi] * T.float32(3)


@T.prim_func(s_tir=True)
def out_of_bounds(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")) -> None:
    T.func_attr({"global_symbol": "main"})
    for i in range(64):
        B[i * 30000000] = A[i]


@T.prim_func(s_tir=True)
def hungry(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")) -> None:
    T.func_attr({"global_symbol": "main"})
    with T.sblock("root"):
        room = T.sblock_alloc_buffer((1 << 30,), "float32")
        for i in range(1 << 30):
            room[i] = A[i % 64]
        for i in range(64):
            B[i] = room[i * 1000]


def raising(signal_number: int) -> tvm.tirx.PrimFunc:
    """A function that ends in a signal, as an instruction the core lacks ends in SIGILL."""

    @T.prim_func(s_tir=True)
    def func(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")) -> None:
        T.func_attr({"global_symbol": "main"})
        B[0] = A[0]
        T.evaluate(T.call_extern("int32", "raise", signal_number))

    return func


def board_spec(name: str = TARGET) -> TargetSpec:
    """A target with limits short enough for a test."""
    spec = load_target(name)
    return replace(spec, limits=replace(spec.limits, run_secs=RUN_SECS, memory_bytes=MEMORY_BYTES))


def library(func: tvm.tirx.PrimFunc, spec: TargetSpec, path: Path) -> str:
    """A function linked for a board."""
    built = tvm.compile(tvm.IRModule({"main": func}), target=tvm_target(spec))
    built.export_library(str(path), fcompile=cc.cross_compiler(f"{TRIPLE}-gcc"))
    return str(path)
