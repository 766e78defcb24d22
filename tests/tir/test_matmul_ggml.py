# SPDX-License-Identifier: Apache-2.0
"""Products with weights in ggml's blocks: what they mean, and what rules make of them."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from rule_checks import AVX2, AVX512, LLVM, Array, assert_replays, with_random_decisions
from tvm.ir import IRModule
from tvm.target import codegen

from kope_tvm.errors import ModelError
from kope_tvm.ggml_blocks import Q4_0, Q8_0
from kope_tvm.machine import load_target, tvm_target
from kope_tvm.operators import parse_operator
from kope_tvm.schedules import matmul_ggml_rvv, matmul_ggml_x86
from kope_tvm.target import TargetSpec

NAMES = ("matmul_q4_0", "matmul_q8_0", "matmul_q4_0_q8_0", "matmul_q8_0_q8_0")
FEATURES = ["avx512vnni", "avx512vbmi"]
VNNI = {**LLVM, "mcpu": "x86-64-v4", "mattr": [f"+{each}" for each in FEATURES]}
TARGETS = {
    "avx2": AVX2,
    "avx512": TargetSpec("avx512", {**LLVM, "mcpu": "x86-64-v4"}, AVX512.facts),
    "vnni": TargetSpec("vnni", VNNI, AVX512.facts),
}
BIG = float(np.float16(65504))


def test_q4_0_bytes_mean_what_ggml_says() -> None:
    block = np.zeros((1, 1, 18), np.uint8)
    block[..., :2] = np.array([0.5], np.float16).view(np.uint8)
    block[0, 0, 2] = 0xF1
    found = Q4_0.decoded(block)[0]
    assert (found[0], found[16], found[1]) == (0.5 * (1 - 8), 0.5 * (15 - 8), 0.5 * -8)


def test_q8_0_bytes_mean_what_ggml_says() -> None:
    block = np.zeros((1, 1, 34), np.uint8)
    block[..., :2] = np.array([-2], np.float16).view(np.uint8)
    block[0, 0, [2, 33]] = 0x80, 3
    assert Q8_0.decoded(block)[0, [0, 31]].tolist() == [256.0, -6.0]


@pytest.mark.parametrize("scale", [0.0, -1.5, 6e-8, 6.1e-5, BIG, np.inf, -np.inf, np.nan])
def test_scales_are_halves_and_none_that_is_not_finite_counts(scale: float) -> None:
    block = np.zeros((1, 1, 18), np.uint8)
    block[..., :2] = np.array([scale], np.float16).view(np.uint8)
    block[0, 0, 2] = 9
    row = np.zeros((1, 32), np.float32)
    row[0, 0] = 1
    expected = float(np.float16(scale)) if np.isfinite(scale) else 0.0
    mod = parse_operator("op:matmul_q4_0:m=1,n=1,k=32").tir()
    assert executed(mod, row, block, AVX2).item() == expected


def test_rows_are_rounded_to_127_steps_of_the_largest_of_32() -> None:
    row = np.zeros((1, 64), np.float32)
    row[0, [0, 1, 32]] = 127, 0.6, 0.6
    weights = np.zeros((1, 2, 34), np.uint8)
    weights[..., :2] = np.array([1], np.float16).view(np.uint8)
    weights[0, 0, 3] = weights[0, 1, 2] = 1
    bound = parse_operator("op:matmul_q8_0_q8_0:m=1,n=1,k=64")
    # Next to 127 the 0.6 is 1, among zeros it is itself.
    assert bound.reference(row, weights).item() == pytest.approx(1 + 0.6)
    assert executed(bound.tir(), row, weights, AVX2).item() == pytest.approx(1 + 0.6)


def test_depth_that_is_no_whole_block_is_refused() -> None:
    with pytest.raises(ModelError, match="k=40 is not a multiple of 32"):
        parse_operator("op:matmul_q4_0:m=1,n=1,k=40").tir()


@pytest.mark.parametrize("rows", [1, 6])
@pytest.mark.parametrize("machine", TARGETS)
@pytest.mark.parametrize("name", NAMES)
def test_rule_computes_the_same(name: str, machine: str, rows: int) -> None:
    target = TARGETS[machine]
    if not runs_here(target):
        pytest.skip(f"this machine lacks {machine}")
    bound = parse_operator(f"op:{name}:m={rows},n=24,k=256")
    func = bound.tir()["main"]
    (space,) = matmul_ggml_x86.schedule(func, target)
    assert_replays(func, space)
    row, weights = arrays(bound.inputs[0].shape, bound.inputs[1].shape)
    wanted = bound.reference(row.astype(np.float64), weights)
    for sch in (space, with_random_decisions(func, space, seed=rows)):
        found = executed(sch.mod, row, weights, target)
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4 * np.abs(wanted).max())


@pytest.mark.parametrize("name", NAMES)
def test_only_one_loop_is_parallel_and_it_is_the_last(name: str) -> None:
    """What threads of ggml share between them."""
    func = parse_operator(f"op:{name}:m=4,n=512,k=512").tir()["main"]
    (space,) = matmul_ggml_x86.schedule(func, load_target("x86-avx512"))
    text = space.mod.script()
    assert text.count("T.parallel") == 1
    assert text.index("T.parallel") > text.rindex("T.vectorized(16)", 0, text.index("T.parallel"))


@pytest.mark.parametrize("name", NAMES)
def test_vnni_multiplies_bytes(name: str) -> None:
    func = parse_operator(f"op:{name}:m=1,n=64,k=256").tir()["main"]
    (space,) = matmul_ggml_x86.schedule(func, TARGETS["vnni"])
    code = tvm.compile(space.mod, target=tvm_target(TARGETS["vnni"])).mod.inspect_source("asm")
    assert ("vpdpbusd" in code) == ("_0_q8_0" in name)


@pytest.mark.parametrize("name", NAMES)
def test_rvv_multiplies_what_is_widened_on_the_way(name: str) -> None:
    target = load_target("spacemit-k1")
    func = parse_operator(f"op:{name}:m=1,n=64,k=256").tir()["main"]
    (space,) = matmul_ggml_rvv.schedule(func, target)
    assert_replays(func, space)
    code = tvm.compile(space.mod, target=tvm_target(target)).mod.inspect_source("asm")
    wanted = "vwmul" if "_0_q8_0" in name else "vfmacc"
    assert wanted in code


def test_other_functions_are_left_alone() -> None:
    for spec in ("op:matmul_nbits:m=1,n=64,k=64", "op:matmul:m=4,n=4,k=4", "op:softmax:m=4,n=4"):
        assert matmul_ggml_x86.schedule(parse_operator(spec).tir()["main"], AVX2) == []


def arrays(row: tuple[int, ...], weights: tuple[int, ...]) -> tuple[Array, Array]:
    """Random numbers, and any bytes with scales of an ordinary size."""
    rng = np.random.default_rng(3)
    packed = rng.integers(0, 256, weights, dtype=np.uint8)
    scales = rng.uniform(-0.1, 0.1, weights[:2]).astype(np.float16)
    packed[..., :2] = scales.view(np.uint8).reshape(*weights[:2], 2)
    return rng.standard_normal(row).astype(np.float32), packed


def executed(mod: IRModule, row: Array, weights: Array, target: TargetSpec) -> Array:
    out = np.full((len(row), len(weights)), 77, np.float32)
    tensors = [tvm.runtime.tensor(array) for array in (row, weights, out)]
    tvm.compile(mod, target=tvm_target(target)).jit()["main"](*tensors)
    return np.asarray(tensors[-1].numpy())


def runs_here(target: TargetSpec) -> bool:
    host = tvm_target(load_target("host"))
    level = "avx2" if target.facts.isa == "avx2" else "avx512f"
    wanted = [level, *(FEATURES if target.name == "vnni" else ())]
    return all(codegen.target_has_features(each, host) for each in wanted)
