# SPDX-License-Identifier: Apache-2.0
"""Every target of the live registry is one that TVM and LLVM can make vector code for."""

from __future__ import annotations

import re

import pytest
import tvm
from tvm import te
from tvm.target import codegen

from kope_tvm.host import Isa, isa_of
from kope_tvm.machine import known_targets, load_target, read_target, tvm_target
from kope_tvm.target import TargetSpec

_FLOAT32_BITS = 32
VECTOR_CODE = {
    "avx512": r"\bv\w+ps\b.*%zmm",
    "avx2": r"\bv\w+ps\b.*%ymm",
    "sse": r"\b(mul|add)ps\b",
    "neon": r"\bf\w+\s+v\d+\.4s|\bf\w+\.4s",
    "rvv": r"\bvf\w+\.v[vf]\b",
}
"""An arithmetic instruction on a whole vector register of float32, by instruction set."""


@pytest.fixture(params=known_targets())
def spec(request: pytest.FixtureRequest) -> TargetSpec:
    return load_target(request.param)


def scaled_sum(num_elements: int, num_lanes: int) -> tvm.IRModule:
    """Return c = a * b + a, vectorized."""
    left = te.placeholder((num_elements,), name="A")
    right = te.placeholder((num_elements,), name="B")
    total = te.compute((num_elements,), lambda i: left[i] * right[i] + left[i], name="C")
    sch = tvm.s_tir.Schedule(te.create_prim_func([left, right, total]))
    (loop,) = sch.get_loops(sch.get_sblock("C"))
    _, lanes = sch.split(loop, [None, num_lanes])
    sch.vectorize(lanes)
    return sch.mod


def assembly(spec: TargetSpec) -> str:
    lanes = max(1, spec.facts.vlen_bits // _FLOAT32_BITS)
    built = tvm.compile(scaled_sum(64 * lanes, lanes), target=tvm_target(spec))
    return str(built.mod.inspect_source("s"))


def test_facts_are_plausible(spec: TargetSpec) -> None:
    facts = spec.facts
    assert facts.num_cores >= 1
    if spec.tvm_target["kind"] != "cuda":
        assert facts.num_cores == spec.tvm_target["num-cores"]
    assert facts.vlen_bits % _FLOAT32_BITS == 0
    assert (facts.vlen_bits > 0) == (facts.vector_registers > 0) == bool(facts.isa)
    sizes = [size for size in (facts.l1_bytes, facts.l2_bytes, facts.l3_bytes) if size]
    assert sizes == sorted(sizes)
    assert min(spec.limits.build_secs, spec.limits.run_secs, spec.limits.memory_bytes) > 0


def test_summary_says_what_it_is(spec: TargetSpec) -> None:
    assert spec.summary


def test_llvm_knows_the_cpu(spec: TargetSpec) -> None:
    if spec.tvm_target["kind"] != "llvm":
        pytest.skip(f"{spec.name} is not LLVM's")
    triple = spec.tvm_target.get("mtriple") or codegen.llvm_get_system_triple()
    assert codegen.llvm_is_valid_cpu(spec.tvm_target["mcpu"], triple)


def test_llvm_has_the_vectors_that_the_facts_say(spec: TargetSpec) -> None:
    if spec.facts.isa not in VECTOR_CODE:
        pytest.skip(f"{spec.name} has no CPU vector unit")
    found = isa_of(codegen.llvm_get_cpu_features(tvm_target(spec)))
    facts = spec.facts
    assert found == Isa(facts.isa, facts.vlen_bits, facts.vector_registers)


def test_elementwise_kernel_becomes_vector_code(spec: TargetSpec) -> None:
    if spec.facts.isa not in VECTOR_CODE:
        pytest.skip(f"{spec.name} has no CPU vector unit")
    assert re.search(VECTOR_CODE[spec.facts.isa], assembly(spec))


@pytest.mark.parametrize(
    "name", [name for name in known_targets() if read_target(name).facts.isa == "rvv"]
)
def test_vectors_of_a_fixed_length_are_not_masked_scalable_code(name: str) -> None:
    # TVM's scalable form makes a mask out of lane numbers for every vector.
    assert not re.search(r"\bvid\.v\b", assembly(load_target(name)))
