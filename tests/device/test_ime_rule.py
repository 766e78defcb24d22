# SPDX-License-Identifier: Apache-2.0
"""int8 products by SpacemiT's `vmadot`: right on Spike, tails and all, and off where it is not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kope_tvm import registry
from kope_tvm.candidate import Candidate
from kope_tvm.device.program.link import Program, link
from kope_tvm.device.spike.emulator import run, spike
from kope_tvm.device.spike.ime import ime_library
from kope_tvm.errors import KopeError
from kope_tvm.gates import load_gates
from kope_tvm.gates.annotations import Annotations
from kope_tvm.llvm_build import object_bytes
from kope_tvm.machine import load_target, tvm_target
from kope_tvm.operators import parse_operator
from kope_tvm.proposal import Decisions
from kope_tvm.target import TargetSpec
from kope_tvm.workbench import Workbench, make_task

try:
    spike()
except KopeError as missing:
    pytest.skip(str(missing), allow_module_level=True)

pytestmark = pytest.mark.device
RULE = "rule:matmul_ime_rvv"
PLAIN = load_target("spacemit-k1")


def _with_ime(spec: TargetSpec) -> TargetSpec:
    given = spec.tvm_target["mattr"]
    assert isinstance(given, (list, tuple))
    return replace(spec, tvm_target={**spec.tvm_target, "mattr": [*given, "+xsmtvdot"]})


def _bench(spec: TargetSpec, rows: int, cols: int, depth: int) -> Workbench:
    operator = f"op:matmul_int8:m={rows},n={cols},k={depth},dtype=int8"
    return Workbench(make_task(operator, parse_operator(operator).tir(), spec))


def _candidate(bench: Workbench) -> Candidate:
    (space,) = [each for each in bench.rule_spaces if each.name == RULE]
    candidate = bench.apply(Decisions(space.name, space.trace))
    assert isinstance(candidate, Candidate), candidate
    return candidate


@pytest.mark.parametrize(
    ("rows", "cols", "depth"), [(16, 32, 32), (13, 21, 19), (4, 4, 8), (1, 64, 40), (81, 41, 19)]
)
def test_it_is_right_on_a_core_that_has_it(
    rows: int, cols: int, depth: int, tmp_path: Path
) -> None:
    bench = _bench(_with_ime(PLAIN), rows, cols, depth)
    candidate = _candidate(bench)
    bound, rng = parse_operator(bench.task.name), np.random.default_rng(3)
    feeds = [rng.integers(-128, 128, each.shape).astype(each.dtype) for each in bound.inputs]
    wanted = np.asarray(bound.reference(*feeds))
    code = object_bytes(candidate.sch.mod, tvm_target(bench.task.target))
    arguments = (*feeds, np.full_like(wanted, 77))
    program = Program(code, arguments, (False, False, True), num_cores=8)
    made = link(program, tmp_path, is_bare=True)
    (found,) = program.outputs(run(made, 256, 30.0, ime_library()))
    np.testing.assert_array_equal(found, wanted)
    with pytest.raises(KopeError, match="trapped on Spike: illegal instruction"):
        run(made, 256, 30.0)


def test_every_gate_lets_it_pass() -> None:
    bench = _bench(_with_ime(PLAIN), 81, 41, 19)
    candidate = _candidate(bench)
    for gate in load_gates():
        verdict = gate.check(candidate, bench.task)
        assert verdict.accepted, verdict


def test_foreign_code_is_refused_beside_it() -> None:
    bench = _bench(_with_ime(PLAIN), 16, 32, 32)
    candidate = _candidate(bench)
    loop = candidate.sch.get_loops(candidate.sch.get_sblock("A_global"))[0]
    candidate.sch.annotate(loop, "pragma_import_llvm", "define void @f() { ret void }")
    verdict = Annotations().check(candidate, bench.task)
    assert (verdict.code, verdict.suspicious) == ("E_ANNOTATION", True)


@pytest.mark.parametrize("name", ["spacemit-k1", "spacemit-k3-x100", "spacemit-k3-a100"])
def test_no_target_of_ours_has_it(name: str) -> None:
    assert RULE not in {each.name for each in _bench(load_target(name), 16, 32, 32).rule_spaces}


def test_other_lengths_and_other_functions_are_left_alone() -> None:
    rule = registry.load("schedules", "matmul_ime_rvv")
    long = _with_ime(load_target("spacemit-k3-a100"))
    product = parse_operator("op:matmul_int8:m=16,n=32,k=32,dtype=int8").tir()["main"]
    assert rule(product, long) == []
    for other in ("op:matmul:m=16,n=16,k=16", "op:softmax:m=4,n=8", "op:relu:n=8"):
        assert rule(parse_operator(other).tir()["main"], _with_ime(PLAIN)) == []
