# SPDX-License-Identifier: Apache-2.0
"""The measuring pool with real kernels: right, wrong, slow and odd."""

from __future__ import annotations

import time
from dataclasses import replace

import measure_kernels as kernels
import pytest
import tvm
from measure_pool import LOG, QUICK, SPEC, measured, mod_of
from tvm.script import tirx as T

from kope_tvm.errors import TargetError
from kope_tvm.measure import Pool


@T.prim_func(s_tir=True)
def _double_by_adding(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")) -> None:
    T.func_attr({"global_symbol": "main"})
    for i in T.vectorized(64):
        B[i] = A[i] + A[i]


@T.prim_func(s_tir=True)
def _right_once(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")) -> None:
    T.func_attr({"global_symbol": "main"})
    # Only a poisoned output is not equal to itself.
    if B[0] == B[0]:
        for i in range(64):
            B[i] = A[i]
    else:
        for i in range(64):
            B[i] = A[i] * T.float32(2)


@T.prim_func(s_tir=True)
def _slow(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")) -> None:
    T.func_attr({"global_symbol": "main"})
    for i in range(64):
        B[i] = A[i] * T.float32(2)
    T.evaluate(T.call_extern("int32", "usleep", 350000))


@T.prim_func(s_tir=True)
def _half_written(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")) -> None:
    T.func_attr({"global_symbol": "main"})
    for i in range(63):
        B[i] = A[i] * T.float32(2)


@T.prim_func(s_tir=True)
def _input_written(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")) -> None:
    T.func_attr({"global_symbol": "main"})
    for i in range(64):
        B[i] = A[i] * T.float32(2)
        A[i] = T.float32(0)


@T.prim_func(s_tir=True)
def _matmul(
    A: T.Buffer((64, 64), "float32"),
    B: T.Buffer((64, 64), "float32"),
    C: T.Buffer((64, 64), "float32"),
) -> None:
    T.func_attr({"global_symbol": "main"})
    for i, j, k in T.grid(64, 64, 64):
        with T.sblock("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


@T.prim_func(s_tir=True)
def _matmul_backwards(
    A: T.Buffer((64, 64), "float32"),
    B: T.Buffer((64, 64), "float32"),
    C: T.Buffer((64, 64), "float32"),
) -> None:
    T.func_attr({"global_symbol": "main"})
    for i, j in T.grid(64, 64):
        C[i, j] = T.float32(0)
        for k in range(64):
            C[i, j] = C[i, j] + A[i, 63 - k] * B[63 - k, j]


@T.prim_func(s_tir=True)
def _two_outputs(
    A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")
) -> None:
    T.func_attr({"global_symbol": "main"})
    for i in range(8):
        with T.sblock("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] + 1
    for i in range(8):
        with T.sblock("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = A[vi] - 1


@T.prim_func(s_tir=True)
def _second_output_wrong(
    A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")
) -> None:
    T.func_attr({"global_symbol": "main"})
    for i in range(8):
        B[i] = A[i] + 1
        C[i] = A[i] + 1


@T.prim_func(s_tir=True)
def _take(
    A: T.Buffer((5, 4), "float32"), rows: T.Buffer((9,), "int64"), B: T.Buffer((9, 4), "float32")
) -> None:
    T.func_attr({"global_symbol": "main"})
    for i, j in T.grid(9, 4):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[rows[vi], vj]


@T.prim_func(s_tir=True)
def _accumulate(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")) -> None:
    T.func_attr({"global_symbol": "main"})
    for i in range(8):
        with T.sblock("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = B[vi] + A[vi]


@T.prim_func(s_tir=True)
def _scaled(A: T.Buffer((8,), "int32"), n: T.int32, B: T.Buffer((8,), "int32")) -> None:
    T.func_attr({"global_symbol": "main"})
    for i in range(8):
        with T.sblock("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] * n


@T.prim_func(s_tir=True)
def _empty(A: T.Buffer((0, 4), "float32"), B: T.Buffer((0, 4), "float32")) -> None:
    T.func_attr({"global_symbol": "main"})
    for i, j in T.grid(0, 4):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = T.exp(A[vi, vj])


def test_a_right_kernel_is_checked_and_timed(pool: Pool) -> None:
    (outcome,) = measured(pool, [_double_by_adding], kernels.double)
    assert outcome.ok
    assert len(outcome.run_secs) == 2
    assert 0 < outcome.secs < 1e-3
    assert outcome.max_error <= 1
    assert outcome.build_secs > 0


def test_baseline_is_the_untuned_time(pool: Pool) -> None:
    outcome = pool.baseline(mod_of(_matmul))
    assert outcome.ok
    assert 1e-6 < outcome.secs < 1e-1


@pytest.mark.parametrize("wrong", [kernels.triple, _half_written])
def test_wrong_numbers_are_refused(pool: Pool, wrong: tvm.tirx.PrimFunc) -> None:
    (outcome,) = measured(pool, [wrong], kernels.double)
    assert (outcome.ok, outcome.stage, outcome.code) == (False, "check", "E_NUMERICS")
    assert outcome.max_error > 1
    assert " at [" in outcome.error


def test_numbers_that_are_wrong_in_a_later_call_are_refused(pool: Pool) -> None:
    (outcome,) = measured(pool, [_right_once], kernels.double)
    assert (outcome.ok, outcome.code) == (False, "E_NUMERICS")


def test_a_slow_candidate_gets_one_repeat(pool: Pool) -> None:
    started = time.monotonic()
    (outcome,) = measured(pool, [_slow], kernels.double)
    assert outcome.ok, outcome.error
    assert len(outcome.run_secs) == 1
    assert 0.35 < outcome.secs < 1
    assert time.monotonic() - started < 3


def test_a_hopeless_candidate_is_timed_by_its_first_call(pool: Pool) -> None:
    given = [mod_of(_slow), mod_of(_double_by_adding)]
    found = dict(pool.measure(given, reference=mod_of(kernels.double), hopeless_secs=0.2))
    assert (len(found[0].run_secs), len(found[1].run_secs)) == (1, 2)
    assert 0.35 < found[0].secs < 1
    assert found[0].device_secs < 0.7


def test_every_output_is_compared(pool: Pool) -> None:
    right, wrong = measured(pool, [_two_outputs, _second_output_wrong], _two_outputs)
    assert right.ok
    assert wrong.code == "E_NUMERICS"
    assert " of C; wrong 1 of [8]" in wrong.error


def test_a_changed_input_is_refused(pool: Pool) -> None:
    (outcome,) = measured(pool, [_input_written], kernels.double)
    assert outcome.code == "E_INPUT_WRITTEN"


def test_another_signature_is_refused(pool: Pool) -> None:
    (outcome,) = measured(pool, [_matmul], kernels.double)
    assert outcome.code == "E_SIGNATURE"
    assert "expected (A: float32[64], B: float32[64])" in outcome.error


@pytest.mark.parametrize("func", [_take, _accumulate, _scaled, _empty])
def test_odd_signatures_are_right_by_themselves(pool: Pool, func: tvm.tirx.PrimFunc) -> None:
    (outcome,) = measured(pool, [func], func)
    assert outcome.ok, outcome.error


def test_another_order_of_summation_is_right_but_not_the_same(pool: Pool) -> None:
    (outcome,) = measured(pool, [_matmul_backwards], _matmul)
    assert outcome.ok
    assert 0 < outcome.max_error < 0.5


def test_symbolic_shapes_are_refused_by_name(pool: Pool) -> None:
    @T.prim_func(s_tir=True)
    def symbolic(a: T.handle, b: T.handle) -> None:
        T.func_attr({"global_symbol": "main"})
        n = T.int64()
        A = T.match_buffer(a, (n, 4), "float32")
        B = T.match_buffer(b, (n, 4), "float32")
        for i, j in T.grid(n, 4):
            with T.sblock("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = T.exp(A[vi, vj])

    outcome = pool.baseline(mod_of(symbolic))
    assert outcome.code == "E_BUILD"
    assert "symbolic shape" in outcome.error


def test_sixteen_matmuls_take_seconds(pool: Pool) -> None:
    started = time.monotonic()
    outcomes = measured(pool, [_matmul] * 16, _matmul)
    assert all(outcome.ok for outcome in outcomes)
    assert time.monotonic() - started < 20


def test_a_target_behind_a_tracker_is_refused() -> None:
    with pytest.raises(TargetError, match="RPC tracker"):
        Pool(replace(SPEC, rpc_key="board"), QUICK, LOG)
