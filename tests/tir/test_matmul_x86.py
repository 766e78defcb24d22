# SPDX-License-Identifier: Apache-2.0
"""The x86 matmul rule: what it takes, what it computes, and that its traces replay."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tvm
from rule_checks import (
    AVX2,
    AVX512,
    RVV,
    Array,
    assert_right,
    elementwise_func,
    fused,
    hardswish,
    inputs,
    row_max_func,
    run,
    tensor,
    with_random_decisions,
)
from tvm import relax, te, tirx

from kope_tvm.host import cpu_flags
from kope_tvm.schedules.matmul_x86 import schedule
from kope_tvm.target import TargetSpec

op = relax.op


def matmul_func(
    m: int, n: int, k: int, *, transposed: bool = False, dtype: str = "float32"
) -> tirx.PrimFunc:
    out = "int32" if dtype == "int8" else dtype
    a = te.placeholder((m, k), dtype, name="a")
    b = te.placeholder((n, k) if transposed else (k, n), dtype, name="b")
    r = te.reduce_axis((0, k), name="r")

    def product(i: tirx.Var, j: tirx.Var) -> tirx.PrimExpr:
        other = b[j, r] if transposed else b[r, j]
        if out == dtype:
            return te.sum(a[i, r] * other, axis=r)
        return te.sum(a[i, r].astype(out) * other.astype(out), axis=r)

    return te.create_prim_func([a, b, te.compute((m, n), product, name="c")])


def symbolic_func() -> tirx.PrimFunc:
    n = te.var("n", "int64")
    a, b = te.placeholder((n, 8), name="a"), te.placeholder((8, 16), name="b")
    r = te.reduce_axis((0, 8), name="r")
    c = te.compute((n, 16), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="c")
    return te.create_prim_func([a, b, c])


SIZES = [(81, 41, 19), (64, 64, 64), (1, 100, 65), (7, 50, 33), (50, 1, 64), (24, 8, 1)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("transposed", [False, True])
def test_product_is_right(size: tuple[int, int, int], transposed: bool) -> None:
    def expected(a: Array, b: Array) -> Array:
        return a @ (b.T if transposed else b)

    assert_right(schedule, matmul_func(*size, transposed=transposed), expected)


def test_product_is_right_for_large_odd_sizes() -> None:
    func = matmul_func(540, 516, 332)
    assert_right(schedule, func, lambda a, b: a @ b, num_random=0)


def test_product_is_right_with_narrow_vectors() -> None:
    assert_right(schedule, matmul_func(30, 44, 20), lambda a, b: a @ b, target=AVX2)


def test_int8_product_accumulates_in_int32() -> None:
    func = matmul_func(33, 64, 40, dtype="int8")
    (sch, *_) = assert_right(schedule, func, lambda a, b: a @ b)
    arrays = inputs(func)
    exact = arrays[0].astype(np.int32) @ arrays[1].astype(np.int32)
    np.testing.assert_array_equal(run(sch.mod, arrays), exact)


def on_cpu(target: TargetSpec, mcpu: str) -> TargetSpec:
    return replace(target, tvm_target={**target.tvm_target, "mcpu": mcpu})


@pytest.mark.parametrize(
    ("size", "transposed"),
    [((33, 64, 48), False), ((81, 41, 20), False), ((40, 50, 16), True), ((2, 32, 8), False)],
)
def test_int8_product_with_a_tensor_intrinsic_is_right(
    size: tuple[int, int, int], transposed: bool
) -> None:
    func = matmul_func(*size, transposed=transposed, dtype="int8")
    spaces = assert_right(
        schedule, func, lambda a, b: a @ (b.T if transposed else b), target=on_cpu(AVX2, "haswell")
    )
    assert any("kope_dot_8x2_avx2" in str(sch.trace) for sch in spaces)


@pytest.mark.parametrize(
    ("mcpu", "instruction"),
    [("znver5", "vpdpbusd"), ("skylake-avx512", "vpmaddwd"), ("haswell", "vpmaddwd")],
)
def test_int8_product_takes_the_best_instruction_of_the_machine(
    mcpu: str, instruction: str
) -> None:
    target = on_cpu(AVX2 if mcpu == "haswell" else AVX512, mcpu)
    (first, *_) = schedule(matmul_func(64, 64, 64, dtype="int8"), target)
    built = tvm.compile(first.mod, target=tvm.target.Target(dict(target.tvm_target)))
    assert instruction in built.mod.inspect_source("asm")


@pytest.mark.parametrize("depth", [4, 8, 16])
def test_int8_extremes_are_exact_with_vnni(depth: int) -> None:
    if "avx512_vnni" not in cpu_flags():
        pytest.skip("this machine has no AVX512-VNNI")
    func, target = matmul_func(24, 48, depth, dtype="int8"), on_cpu(AVX512, "znver4")
    rng = np.random.default_rng(depth)
    a = rng.choice(np.array([-128, -1, 127], "int8"), (24, depth))
    b = rng.choice(np.array([-128, 0, 127], "int8"), (depth, 48))
    exact = a.astype(np.int32) @ b.astype(np.int32)
    for sch in schedule(func, target):
        executable = tvm.compile(sch.mod, target=tvm.target.Target(dict(target.tvm_target))).jit()
        out = tvm.runtime.tensor(np.zeros((24, 48), "int32"))
        executable["main"](tvm.runtime.tensor(a), tvm.runtime.tensor(b), out)
        np.testing.assert_array_equal(out.numpy(), exact)


def test_int8_product_with_other_operand_order_is_left_to_the_compiler() -> None:
    a, b = te.placeholder((24, 32), "int8", name="a"), te.placeholder((32, 48), "int8", name="b")
    r = te.reduce_axis((0, 32), name="r")

    def swapped(i: tirx.Var, j: tirx.Var) -> tirx.PrimExpr:
        return te.sum(b[r, j].astype("int32") * a[i, r].astype("int32"), axis=r)

    func = te.create_prim_func([a, b, te.compute((24, 48), swapped, name="c")])
    spaces = schedule(func, on_cpu(AVX512, "znver5"))
    assert spaces
    assert not any("kope_dot" in str(sch.trace) for sch in spaces)


@pytest.mark.parametrize(("left", "right"), [((3, 13, 7), (3, 7, 20)), ((2, 3, 4, 37), (37, 50))])
def test_batched_product_is_right(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    a, b = tensor("a", *left), tensor("b", *right)
    assert_right(schedule, fused([a, b], op.matmul(a, b)), np.matmul)


def test_epilogue_with_bias_residual_and_hardswish_runs_in_the_tile() -> None:
    a, b = tensor("a", 40, 37), tensor("b", 37, 50)
    bias, residual = tensor("bias", 50), tensor("residual", 40, 50)
    value = op.add(op.add(op.matmul(a, b), bias), residual)

    def expected(a: Array, b: Array, bias: Array, residual: Array) -> Array:
        x: Array = a @ b + bias + residual
        out: Array = x * np.clip(x + 3, 0, 6) / 6
        return out

    func = fused([a, b, bias, residual], hardswish(value))
    (sch, *_) = assert_right(schedule, func, expected)
    assert "T_add_intermediate" not in sch.mod["main"].script()


def test_transposed_and_scaled_operands_are_read_where_they_are_packed() -> None:
    a, b = te.placeholder((37, 40), name="a"), te.placeholder((64, 37), name="b")
    left = te.compute((40, 37), lambda i, j: a[j, i] * 2.0, name="left")
    right = te.compute((37, 64), lambda i, j: b[j, i] + 1.0, name="right")
    r = te.reduce_axis((0, 37), name="r")
    c = te.compute((40, 64), lambda i, j: te.sum(left[i, r] * right[r, j], axis=r), name="c")
    func = te.create_prim_func([a, b, c])
    assert_right(schedule, func, lambda a, b: (2 * a.T) @ (b.T + 1))


def test_ten_random_decisions_stay_legal_and_right() -> None:
    func = matmul_func(48, 96, 20)
    assert_right(schedule, func, lambda a, b: a @ b, num_random=10)


def test_first_decision_follows_the_register_file() -> None:
    func = matmul_func(512, 512, 512)
    wide, narrow = (schedule(func, target)[0].trace.as_json() for target in (AVX512, AVX2))
    assert str(wide) != str(narrow)


@pytest.mark.parametrize("func", [elementwise_func(), row_max_func(), symbolic_func()])
def test_other_functions_are_left_alone(func: tirx.PrimFunc) -> None:
    assert schedule(func, AVX512) == []


def test_other_machines_are_left_alone() -> None:
    assert schedule(matmul_func(16, 16, 16), RVV) == []


def test_decisions_change_the_module() -> None:
    func = matmul_func(64, 64, 64)
    sch = schedule(func, AVX512)[0]
    scripts = {with_random_decisions(func, sch, seed).mod.script() for seed in range(6)}
    assert len(scripts) > 2


def test_panels_are_packed_where_they_are_used_when_the_rows_stay_in_cache() -> None:
    (first, *_) = schedule(matmul_func(128, 2048, 64), AVX512)
    assert first.mod["main"].script().count("T.parallel") == 1


def test_columns_short_of_a_vector_are_stored_without_a_guard_on_every_lane() -> None:
    (first, *_) = schedule(matmul_func(64, 100, 64), AVX512)
    assert "T.vectorized(4)" in first.mod["main"].script()


def test_a_row_by_a_matrix_beyond_the_caches_reads_it_row_by_row() -> None:
    near = len(schedule(matmul_func(1, 512, 256), AVX512))
    facts = replace(AVX512.facts, l2_bytes=128 << 10)
    func = matmul_func(1, 512, 256)  # 512 KiB, and the two cores have 256
    spaces = assert_right(schedule, func, lambda a, b: a @ b, target=replace(AVX512, facts=facts))
    assert len(spaces) == near + 1
