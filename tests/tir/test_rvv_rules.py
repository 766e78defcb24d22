# SPDX-License-Identifier: Apache-2.0
"""The RISC-V rules: a space at each LMUL, right in its arithmetic (run here on this machine)."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from rule_checks import AVX512, RVV, assert_replays, run, with_random_decisions

from kope_tvm import registry
from kope_tvm.operators import parse_operator
from kope_tvm.schedules.vectors import grouped

CASES = {
    "matmul_rvv": (
        "op:matmul:m=64,n=64,k=64,dtype=float32",
        "op:matmul:m=81,n=41,k=19,dtype=float32",
        "op:matmul:m=1,n=64,k=64,dtype=float32",
        "op:matmul:m=1,n=128,k=96,dtype=float32",
        "op:matmul_int8:m=24,n=40,k=36,dtype=int8",
    ),
    "conv2d_rvv": ("op:conv2d:n=1,ci=6,h=9,w=11,co=10,kernel=3,stride=1,pad=1,dtype=float32",),
    "depthwise_rvv": (
        "op:depthwise_conv2d:n=1,ci=5,h=13,w=15,kernel=3,stride=2,pad=1,dtype=float32",
    ),
    "softmax_rvv": ("op:softmax:m=14,n=185,dtype=float32",),
    "norm_rvv": (
        "op:layernorm:m=6,n=100,dtype=float32",
        "op:rmsnorm:m=6,n=100,dtype=float32",
    ),
    "heads_rvv": (
        "op:decode_attention:g=2,r=4,n=32,d=16",
        "op:rwkv_mix:t=2,h=2,d=16",
        "op:cumsum:m=6,n=128",
    ),
    "reduce_rvv": (
        "op:reduce_sum:m=23,n=99,dtype=float32",
        "op:reduce_max:m=23,n=99,dtype=float32",
    ),
    "elementwise_rvv": (
        "op:relu:m=23,n=99,dtype=float32",
        "op:log:m=23,n=99,dtype=float32",
        "op:bias_add:m=23,n=99,dtype=float32",
        "op:gelu:m=23,n=99,dtype=float32",
    ),
}


@pytest.mark.parametrize(
    ("rule", "spec"), [(rule, spec) for rule, specs in CASES.items() for spec in specs]
)
def test_spaces_of_every_group_are_right(rule: str, spec: str) -> None:
    operator = parse_operator(spec)
    func = operator.tir()["main"]
    rng = np.random.default_rng(3)
    feeds = [_values(rng, each.shape, each.dtype) for each in operator.inputs]
    wanted = operator.reference(*feeds)
    spaces = registry.load("schedules", rule)(func, RVV)
    assert len(spaces) >= 3
    for number, sch in enumerate(spaces):
        assert_replays(func, sch)
        for each in (sch, with_random_decisions(func, sch, number)):
            found = run(each.mod, [*feeds, np.full_like(wanted, 77)])
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def _values(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    if dtype == "int8":
        return rng.integers(-9, 9, shape).astype(dtype)
    return rng.uniform(0.5, 2.0, shape).astype(dtype)


@pytest.mark.parametrize("rule", sorted(CASES))
def test_only_for_vectors_of_risc_v(rule: str) -> None:
    func = parse_operator(CASES[rule][0]).tir()["main"]
    assert registry.load("schedules", rule)(func, AVX512) == []


def test_a_group_of_registers_is_one_wider_vector() -> None:
    facts = grouped(RVV, 4).facts
    assert (facts.vlen_bits, facts.vector_registers) == (4 * 256, 8)


def test_vectors_of_a_group_are_that_wide() -> None:
    """A 64x64 product at LMUL 2 of 256-bit registers: 16 float32 lanes."""
    func = parse_operator(CASES["matmul_rvv"][0]).tir()["main"]
    first, second, third = registry.load("schedules", "matmul_rvv")(func, RVV)[:3]
    widths = [
        max(int(sch.get(loop).extent) for loop in _vectorized(sch))
        for sch in (first, second, third)
    ]
    assert widths == [16, 32, 8]


def _vectorized(sch: tvm.s_tir.Schedule) -> list[object]:
    blocks = sch.get_child_blocks(sch.get_sblock("root"))
    loops = [loop for block in blocks for loop in sch.get_loops(block)]
    return [loop for loop in loops if int(sch.get(loop).kind) == tvm.tirx.ForKind.VECTORIZED]
