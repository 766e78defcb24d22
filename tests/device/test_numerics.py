# SPDX-License-Identifier: Apache-2.0
"""What is right and what is wrong for real operators, beside a float64 truth."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
import tvm
from measure_pool import LOG, SPEC, measured, mod_of
from tvm.script import tirx as T

from kope_tvm.machine import load_target
from kope_tvm.measure import MeasureConfig, Pool, lift
from kope_tvm.model import extract_tasks, load_model
from kope_tvm.operators import known_operators

ONCE = MeasureConfig(repeat=1, min_repeat_ms=1)
HOST = load_target("host")


@pytest.fixture(scope="module")
def once() -> Iterator[Pool]:
    with Pool(SPEC, ONCE, LOG) as shared:
        yield shared


def _called(
    mod: tvm.IRModule, *inputs: np.ndarray, shape: tuple[int, ...], dtype: str
) -> list[float]:
    function = tvm.compile(mod, target=tvm.target.Target(dict(SPEC.tvm_target))).jit()["main"]
    output = tvm.runtime.empty(shape, dtype)
    function(*(tvm.runtime.tensor(each) for each in inputs), output)
    found: list[float] = output.numpy().tolist()
    return found


@T.prim_func(s_tir=True)
def _relu(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")) -> None:
    T.func_attr({"global_symbol": "main"})
    for i in range(4):
        with T.sblock("B"):
            vi = T.axis.spatial(4, i)
            B[vi] = T.max(A[vi], T.float32(0))


@T.prim_func(s_tir=True)
def _relu_64(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")) -> None:
    T.func_attr({"global_symbol": "main"})
    for i in range(64):
        with T.sblock("B"):
            vi = T.axis.spatial(64, i)
            B[vi] = T.max(A[vi], T.float32(0))


@T.prim_func(s_tir=True)
def _relu_by_vectors(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")) -> None:
    T.func_attr({"global_symbol": "main"})
    for i in T.vectorized(64):
        B[i] = T.max(A[i], T.float32(0))


@T.prim_func(s_tir=True)
def _relu_that_keeps_nan(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")) -> None:
    T.func_attr({"global_symbol": "main"})
    for i in range(64):
        B[i] = T.if_then_else(A[i] < T.float32(0), T.float32(0), A[i])


def test_a7_relu_drops_nan_on_tvm_and_so_must_a_candidate(once: Pool) -> None:
    given = np.array([np.nan, 1, -1, np.nan], np.float32)
    # ONNX Runtime answers [nan, 1, 0, nan].
    assert _called(mod_of(_relu), given, shape=(4,), dtype="float32") == [0, 1, 0, 0]
    both = [_relu_by_vectors, _relu_that_keeps_nan]
    alike, keeps = measured(once, both, _relu_64, prove_secs=math.inf)
    assert alike.is_proven
    assert keeps.code == "E_NUMERICS"
    assert keeps.error.startswith("nan for 0 at ")
    assert "special 0" in keeps.error


@T.prim_func(s_tir=True)
def _sum_f16(A: T.Buffer((4096,), "float16"), B: T.Buffer((1,), "float16")) -> None:
    T.func_attr({"global_symbol": "main"})
    for i in range(4096):
        with T.sblock("B"):
            vi = T.axis.reduce(4096, i)
            with T.init():
                B[0] = T.float16(0)
            B[0] = B[0] + A[vi]


@T.prim_func(s_tir=True)
def _sum_f16_in_f32(A: T.Buffer((4096,), "float16"), B: T.Buffer((1,), "float16")) -> None:
    T.func_attr({"global_symbol": "main"})
    total = T.alloc_buffer((1,), "float32")
    total[0] = T.float32(0)
    for i in range(4096):
        total[0] = total[0] + T.Cast("float32", A[i])
    B[0] = T.Cast("float16", total[0])


@T.prim_func(s_tir=True)
def _half_a_sum(A: T.Buffer((4096,), "float16"), B: T.Buffer((1,), "float16")) -> None:
    T.func_attr({"global_symbol": "main"})
    B[0] = T.float16(0)
    for i in range(2048):
        B[0] = B[0] + A[i]


def test_a8_a_float16_sum_of_ones_is_half_of_it_and_a_wider_one_is_right_too(once: Pool) -> None:
    ones = np.ones(4096, np.float16)
    assert _called(mod_of(_sum_f16), ones, shape=(1,), dtype="float16") == [2048]
    assert _called(mod_of(_sum_f16_in_f32), ones, shape=(1,), dtype="float16") == [4096]
    as_it_is, wider, half = measured(once, [_sum_f16, _sum_f16_in_f32, _half_a_sum], _sum_f16)
    assert as_it_is.ok, as_it_is.error
    assert wider.ok, wider.error
    assert half.code == "E_NUMERICS"


@T.prim_func(s_tir=True)
def _zeros(A: T.Buffer((2, 98304), "float32"), B: T.Buffer((2, 98304), "float32")) -> None:
    T.func_attr({"global_symbol": "main"})
    for i, j in T.grid(2, 98304):
        B[i, j] = T.float32(0)


@T.prim_func(s_tir=True)
def _copy(A: T.Buffer((2, 98304), "float32"), B: T.Buffer((2, 98304), "float32")) -> None:
    T.func_attr({"global_symbol": "main"})
    for i, j in T.grid(2, 98304):
        B[i, j] = A[i, j]


@T.prim_func(s_tir=True)
def _nothing(A: T.Buffer((1024, 1024), "float32"), B: T.Buffer((1024,), "float32")) -> None:
    T.func_attr({"global_symbol": "main"})
    for i in range(1024):
        B[i] = T.float32(0)


@T.prim_func(s_tir=True)
def _least(A: T.Buffer((1024, 1024), "float32"), B: T.Buffer((1024,), "float32")) -> None:
    T.func_attr({"global_symbol": "main"})
    for i, k in T.grid(1024, 1024):
        with T.sblock("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.max_value("float32")
            B[vi] = T.min(B[vi], A[vi, vk])


@T.prim_func(s_tir=True)
def _norm(A: T.Buffer((1024, 1024), "float32"), B: T.Buffer((1024,), "float32")) -> None:
    T.func_attr({"global_symbol": "main"})
    squares = T.alloc_buffer((1024,), "float32")
    for i, k in T.grid(1024, 1024):
        with T.sblock("squares"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                squares[vi] = T.float32(0)
            squares[vi] = squares[vi] + A[vi, vk] * A[vi, vk]
    for i in range(1024):
        with T.sblock("B"):
            vi = T.axis.spatial(1024, i)
            B[vi] = T.sqrt(squares[vi])


def _untuned(spec: str) -> tvm.IRModule:
    ((_, mod, _),) = extract_tasks(load_model(spec), HOST)
    return mod


def test_b20_all_zeros_answer_no_softmax_and_no_norm(once: Pool) -> None:
    softmax = _untuned("op:softmax:m=2,n=98304,dtype=float32")
    found = dict(once.measure([softmax, mod_of(_zeros), mod_of(_copy)], reference=softmax))
    assert [found[index].code for index in range(3)] == ["", "E_NUMERICS", "E_NUMERICS"]
    assert "all zeros there" in found[1].error
    for reference in (_least, _norm):
        right, idle = measured(once, [reference, _nothing], reference)
        assert right.ok, right.error
        assert idle.code == "E_NUMERICS"
    assert once.notice(softmax) == ""


@T.prim_func(s_tir=True)
def _bits(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")) -> None:
    T.func_attr({"global_symbol": "main"})
    for i in range(64):
        with T.sblock("B"):
            vi = T.axis.spatial(64, i)
            B[vi] = T.reinterpret(
                "float32", T.bitwise_and(T.reinterpret("int32", A[vi]), T.int32(0x7FFFFFFF))
            )


def test_what_does_not_lift_is_compared_with_itself_and_says_so(once: Pool) -> None:
    (outcome,) = measured(once, [_bits], _bits)
    assert outcome.is_proven
    assert "compared with the untuned function" in once.notice(mod_of(_bits))
    assert "reinterpret" in once.notice(mod_of(_bits))


@T.prim_func(s_tir=True)
def _copied(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")) -> None:
    T.func_attr({"global_symbol": "main"})
    for i in range(64):
        with T.sblock("B"):
            vi = T.axis.spatial(64, i)
            B[vi] = A[vi]


def test_a_check_that_idle_results_pass_says_so(once: Pool) -> None:
    assert once.notice(mod_of(_copied)) == "a copied input would pass for B"
    assert once.notice(mod_of(_relu_64)) == ""


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(known_operators()))
def test_every_operator_lifts_and_its_quick_form_is_the_same(name: str, once: Pool) -> None:
    mod = _untuned(f"op:{name}")
    lifted = lift.lifted(mod)
    text = lifted.script()
    assert "float32" not in text
    assert (lift.has_floats(mod)) == ("float64" in text)
    lift.hastened(lifted)
    ((_, outcome),) = once.measure([lift.hastened(mod)], reference=mod, prove_secs=math.inf)
    assert outcome.is_proven, outcome.error
    assert outcome.max_error <= 0.75
    assert once.notice(mod) == ""


@pytest.mark.slow
def test_a_program_of_metaschedules_own_space_may_be_wrong(once: Pool) -> None:
    from kope_tvm.bench.throughput import random_candidates

    spec = "op:attention:h=8,m=64,n=64,d=64,dtype=float32"
    untuned, *candidates = random_candidates(spec, HOST, 16)
    found = [one for _, one in once.measure(candidates, reference=untuned, prove_secs=math.inf)]
    assert {one.code for one in found} <= {"", "E_NUMERICS", "E_TIMEOUT"}
    assert any(one.ok for one in found)
