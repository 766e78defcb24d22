# SPDX-License-Identifier: Apache-2.0
"""What LLVM makes of a tuned and of an untuned product, for this ISA and for another."""

from __future__ import annotations

import time

import pytest
import tvm
from tvm import te
from tvm.s_tir import Schedule

from kope_tvm.extraction import as_task_module
from kope_tvm.feedback.hot_loop import HotLoop
from kope_tvm.feedback.machine_code import summary
from kope_tvm.machine import load_target, tvm_target
from kope_tvm.schedules.matmul_x86 import schedule


def _product() -> tvm.IRModule:
    a, b = te.placeholder((128, 128), name="a"), te.placeholder((128, 128), name="b")
    r = te.reduce_axis((0, 128), name="r")
    c = te.compute((128, 128), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="c")
    return as_task_module(te.create_prim_func([a, b, c]))


def _tiled(rows: int, cols: int) -> tvm.IRModule:
    """`rows` vectors of `cols` sums, each written once."""
    sch = Schedule(_product())
    block = sch.get_sblock("c")
    i, j, k = sch.get_loops(block)
    outer_i, inner_i = sch.split(i, [None, rows])
    outer_j, inner_j = sch.split(j, [None, cols])
    sch.reorder(outer_i, outer_j, k, inner_i, inner_j)
    written = sch.cache_write(block, 0, "local")
    sch.reverse_compute_at(written, outer_j)
    sch.unroll(inner_i)
    sch.vectorize(inner_j)
    sch.vectorize(sch.get_loops(written)[-1])
    sch.decompose_reduction(block, k)
    return sch.mod


def _summary(mod: tvm.IRModule, target: str) -> HotLoop:
    found = summary(mod, tvm_target(load_target(target)))
    assert found is not None
    return found


def test_the_rule_multiplies_whole_vectors_in_registers() -> None:
    spec = load_target("x86-avx512")
    with tvm_target(spec):
        scheduled = next(iter(schedule(_product()["main"], spec)))
    loop = _summary(scheduled.mod, "x86-avx512")
    assert loop.fma >= 8
    assert loop.registers == "zmm"
    assert (loop.spills, loop.stores, loop.calls) == (0, 0, ())


def test_the_untuned_product_of_x86_multiplies_one_by_one() -> None:
    loop = _summary(_product(), "x86-avx512")
    assert loop.registers == "scalar"
    assert loop.depth == 3


def test_narrower_vectors_are_told_apart() -> None:
    assert _summary(_tiled(4, 16), "x86-avx2").registers == "ymm"
    assert _summary(_tiled(4, 16), "x86-avx512").registers == "zmm"


@pytest.mark.parametrize("target", ["spacemit-k1", "generic-rv64gcv"])
def test_riscv_needs_no_board(target: str) -> None:
    tuned, untuned = _summary(_tiled(4, 16), target), _summary(_product(), target)
    assert tuned.fma == 4
    assert tuned.registers.startswith("v m")
    assert tuned.registers.endswith("e32")
    assert (tuned.spills, tuned.stores) == (0, 0)
    assert untuned.fma == 0


@pytest.mark.parametrize("target", ["x86-avx512", "x86-avx2", "spacemit-k1", "generic-rv64gcv"])
def test_a_tile_too_large_for_the_registers_spills(target: str) -> None:
    assert _summary(_tiled(32, 32), target).spills > 0


def test_exponentials_are_calls() -> None:
    a = te.placeholder((64,), name="a")
    func = te.create_prim_func([a, te.compute((64,), lambda i: te.exp(a[i]), name="b")])
    assert "expf" in _summary(as_task_module(func), "x86-avx2").calls


def test_a_target_without_a_reader_has_no_summary() -> None:
    arm = {"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "generic", "num-cores": 1}
    assert summary(_product(), tvm.target.Target(arm)) is None
    assert summary(_product(), tvm.target.Target({"kind": "c"})) is None


def test_it_takes_a_moment_only() -> None:
    mod = _tiled(4, 16)
    _summary(mod, "x86-avx512")
    started = time.process_time()
    _summary(mod, "x86-avx512")
    assert time.process_time() - started < 0.3
