# SPDX-License-Identifier: Apache-2.0
"""The rules for NVIDIA GPUs: their CUDA source, run thread by thread on the CPU, is right."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import numpy as np
import pytest
import tvm
from cuda_emulation import Array, cuda_source, emulated
from rule_checks import assert_replays, elementwise_func, inputs
from tvm import te, tirx, topi

from kope_tvm import registry
from kope_tvm.cuda.kernels import kernels_of
from kope_tvm.gates.gpu_limits import fault
from kope_tvm.machine import load_target
from kope_tvm.operators import parse_operator
from kope_tvm.schedules import (
    elementwise_cuda,
    matmul_cuda,
    rows_cuda,
    scans_cuda,
    sums_cuda,
    windows_cuda,
)

H200 = load_target("cuda-h200")
RULES = tuple(name for name in registry.names("schedules") if name.endswith("_cuda"))
CASES = (
    ("rows_cuda", "op:softmax:m=8,n=1024"),
    ("rows_cuda", "op:softmax:m=5,n=1001"),
    ("rows_cuda", "op:layernorm:m=4,n=768"),
    ("rows_cuda", "op:reduce_max:m=8,n=4096"),
    ("elementwise_cuda", "op:gelu:m=64,n=128"),
    ("elementwise_cuda", "op:bias_add:m=10,n=33"),
    ("matmul_cuda", "op:matmul:m=128,n=128,k=64"),
    ("matmul_cuda", "op:matmul:m=33,n=65,k=27"),
    ("matmul_cuda", "op:dense:m=50,n=64,k=64"),
    ("matmul_cuda", "op:conv2d:n=1,ci=8,h=9,w=9,co=16"),
    ("windows_cuda", "op:depthwise_conv2d:n=1,ci=4,h=16,w=16,stride=1"),
    ("windows_cuda", "op:max_pool2d:n=1,ci=4,h=16,w=16,kernel=3,stride=2,pad=1"),
    ("rows_cuda", "op:group_norm:n=2,ci=8,h=16,w=16,groups=2"),
    ("windows_cuda", "op:depthwise_conv2d:n=2,ci=4,h=32,w=32,stride=1"),
    ("windows_cuda", "op:max_pool2d:n=1,ci=4,h=56,w=56,kernel=3,stride=2,pad=1"),
    ("windows_cuda", "op:heat2d:h=64,w=64"),
    ("sums_cuda", "op:column_mean:m=64,n=96"),
    ("sums_cuda", "op:matmul:m=1,n=96,k=64"),
    ("matmul_cuda", "op:matmul:m=64,n=128,k=256"),
    ("scans_cuda", "op:cumsum:m=4,n=256"),
    ("scans_cuda", "op:cumsum:m=3,n=100"),
    ("scans_cuda", "op:cumsum:m=6,n=192"),
)
FIT = (
    "op:softmax:m=4096,n=4096",
    "op:rmsnorm:m=4096,n=4096",
    "op:gelu:m=4096,n=4096",
    "op:matmul:m=4096,n=4096,k=4096",
    "op:column_mean:m=8192,n=4096",
    "op:cumsum:m=4096,n=2048",
)


def assert_right(spaces: list[tvm.s_tir.Schedule], arrays: list[Array], wanted: Array) -> None:
    assert spaces
    for sch in spaces:
        found = emulated(sch.mod, arrays, H200)
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5 * np.abs(wanted).max())


def wanted(reference: Callable[..., Array], arrays: list[Array]) -> Array:
    return reference(*(array.astype(np.float64) for array in arrays[:-1]))


@pytest.mark.skipif(not shutil.which("g++"), reason="no C++ compiler for the emulation")
@pytest.mark.parametrize(("rule", "spec"), CASES)
def test_first_and_last_space_are_right(rule: str, spec: str) -> None:
    operator = parse_operator(spec)
    func = operator.tir()["main"]
    spaces = registry.load("schedules", rule)(func, H200)
    for sch in spaces:
        assert_replays(func, sch)
    arrays = inputs(func)
    ends = [spaces[0], spaces[-1]] if len(spaces) > 1 else spaces
    assert_right(ends, arrays, wanted(operator.reference, arrays))


@pytest.mark.skipif(not shutil.which("g++"), reason="no C++ compiler for the emulation")
def test_a_mean_of_everything_takes_two_kernels() -> None:
    left, right = (
        te.placeholder((256, 1024), name="left"),
        te.placeholder((256, 1024), name="right"),
    )
    gap = left - right
    func = te.create_prim_func([left, right, topi.divide(topi.sum(gap * gap), 262144.0)])
    spaces = sums_cuda.schedule(func, H200)
    assert [kernel.blocks for kernel in kernels_of(spaces[0].mod["main"])] == [256, 1]
    arrays = inputs(func)
    mean = wanted(lambda a, b: np.asarray(np.square(a - b).mean()), arrays)
    assert_right(spaces, arrays, mean)


@pytest.mark.skipif(not shutil.which("g++"), reason="no C++ compiler for the emulation")
def test_a_transpose_goes_by_way_of_shared_memory() -> None:
    x = te.placeholder((64, 96), name="x")
    func = te.create_prim_func([x, topi.transpose(x)])
    (sch,) = elementwise_cuda.schedule(func, H200)
    assert "__shared__" in cuda_source(sch.mod, H200)
    arrays = inputs(func)
    assert_right([sch], arrays, wanted(np.transpose, arrays))


@pytest.mark.parametrize("spec", FIT)
def test_all_spaces_fit_and_load_vectors_where_they_can(spec: str) -> None:
    func = parse_operator(spec).tir()["main"]
    spaces = [sch for rule in RULES for sch in registry.load("schedules", rule)(func, H200)]
    assert spaces
    for sch in spaces:
        kernels = kernels_of(sch.mod["main"])
        assert [fault(kernel, H200.facts) for kernel in kernels] == [""] * len(kernels)
    if "column" not in spec:
        assert "float4" in cuda_source(spaces[0].mod, H200)


def test_a_softmax_reads_its_row_once() -> None:
    func = parse_operator("op:softmax:m=4096,n=4096").tir()["main"]
    source = cuda_source(rows_cuda.schedule(func, H200)[0].mod, H200)
    # sixteen elements a thread, each vector loaded by the only line that reads it
    assert source.count("(X_ptr + ") == 4
    assert "__shfl_down_sync" in source


def test_running_sums_are_added_in_registers_and_moved_in_vectors() -> None:
    func = parse_operator("op:cumsum:m=4096,n=2048").tir()["main"]
    (sch,) = scans_cuda.schedule(func, H200)
    source = cuda_source(sch.mod, H200)
    # a stretch of 32 elements a thread: 32 * 33 / 2 terms, none of them a choice
    added = [
        line for line in source.splitlines() if "within_local_ptr[" in line and " + X_" in line
    ]
    assert len(added) == 528
    assert source.count("(float4*)(X_ptr") == 8


def test_rows_too_long_for_shared_memory_are_no_running_sums_of_ours() -> None:
    func = parse_operator("op:cumsum:m=4,n=65536").tir()["main"]
    assert scans_cuda.schedule(func, H200) == []


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_leaves_other_machines_alone(rule: str) -> None:
    assert registry.load("schedules", rule)(elementwise_func(), load_target("x86-avx2")) == []


def test_one_product_is_no_window() -> None:
    func: tirx.PrimFunc = parse_operator("op:matmul:m=64,n=64,k=64").tir()["main"]
    assert matmul_cuda.schedule(func, H200)
    assert windows_cuda.schedule(func, H200) == []
    assert sums_cuda.schedule(func, H200) == []
