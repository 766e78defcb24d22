# SPDX-License-Identifier: Apache-2.0
"""Each static gate: the code, the number and the place of its refusal, and what it lets pass."""

from __future__ import annotations

from functools import cache

import pytest
import tvm
from tvm import te, tirx
from tvm.s_tir import Schedule
from tvm.script import from_source
from tvm.script import tirx as T

from kope_tvm.candidate import Candidate
from kope_tvm.gates import load_gates
from kope_tvm.operators import QUICK_SUITE, known_operators, parse_operator
from kope_tvm.outcome import Verdict, accept
from kope_tvm.proposal import Decisions, Rewrite
from kope_tvm.target import Facts, TargetSpec
from kope_tvm.task import Task
from kope_tvm.untuned import work_ratio
from kope_tvm.workbench import TVM_ERRORS, Workbench, make_task, trace_text

AVX512 = TargetSpec(
    "avx512",
    {"kind": "llvm", "mcpu": "sapphirerapids", "num-cores": 2},
    Facts("avx512", 512, 32, 2, 48 << 10, 1 << 20, 32 << 20),
)
AVX2 = TargetSpec(
    "avx2",
    {"kind": "llvm", "mcpu": "haswell", "num-cores": 2},
    Facts("avx2", 256, 16, 2, 32 << 10, 256 << 10, 8 << 20),
)
NUM_RANDOM = 300
ROWS, DEPTH = 80, 8

SCALED = """
@T.prim_func(s_tir=True)
def main(A: T.Buffer((80, 8), "float32"), C: T.Buffer((80, 8), "float32")):
    for i, j in T.grid(80, 8):
        with T.sblock("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj] * T.float32(2)
"""
SUMMED = """
@T.prim_func(s_tir=True)
def main(A: T.Buffer((80, 8), "float32"), C: T.Buffer((80,), "float32")):
    total = T.sblock_alloc_buffer((80,), "DTYPE")
    for i, k in T.grid(80, 8):
        with T.sblock("total"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                total[vi] = T.cast(T.float32(0), "DTYPE")
            total[vi] = total[vi] + T.cast(A[vi, vk], "DTYPE")
    for i in range(80):
        with T.sblock("C"):
            vi = T.axis.spatial(80, i)
            C[vi] = T.cast(total[vi], "float32")
"""
TABLE = " + ".join(f"A[vi, vj] * T.float32({number}.25)" for number in range(70))
STORE = "C[vi, vj] = A[vi, vj] * T.float32(2)"
ACCESSES = "T.reads(A[vi, vj]); T.writes(C[vi, vj])"
SKIPPED = """for i in T.serial(80, annotations={"pragma_debug_skip_region": 1}):
      for j in range(8)"""
HUGE = 'huge = T.sblock_alloc_buffer((80, 40000000), "float32")'
IS_NULL = "T.isnullptr(A.data)"


def scaled() -> tirx.PrimFunc:
    a = te.placeholder((ROWS, DEPTH), name="A")
    return te.create_prim_func([a, te.compute((ROWS, DEPTH), lambda i, j: a[i, j] * 2.0, name="C")])


def summed() -> tirx.PrimFunc:
    a = te.placeholder((ROWS, DEPTH), name="A")
    k = te.reduce_axis((0, DEPTH), name="k")
    return te.create_prim_func(
        [a, te.compute((ROWS,), lambda i: te.sum(a[i, k], axis=k), name="C")]
    )


UNTUNED = {"scaled": scaled, "summed": summed}


@cache
def task_of(name: str) -> Task:
    return make_task(name, tvm.IRModule({"main": UNTUNED[name]()}), AVX512)


def verdict_of(candidate: Candidate, task: Task) -> Verdict:
    """The first refusal, as a round takes it."""
    verdicts = (gate.check(candidate, task) for gate in load_gates())
    return next((one for one in verdicts if not one.accepted), accept("static"))


def candidate_of(func: tirx.PrimFunc) -> Candidate:
    """Built past the reader of rewrites, so that the gates stand alone."""
    sch = Schedule(tvm.IRModule({"main": func}))
    return Candidate(Decisions("test", "[[], []]"), "0", sch)


def parsed(script: str) -> tirx.PrimFunc:
    return from_source(script, extra_vars={"T": T})


REFUSED = [
    (
        "scaled",
        SCALED.replace("T.grid(80, 8)", "T.grid(64, 8)"),
        "E_COVERAGE C rows 64..80 of axis 0 never written",
    ),
    (
        "scaled",
        SCALED.replace("A[vi, vj] *", "A[vi + 1, vj] *"),
        "E_BOUNDS index 80 on axis 0 of A, which has 80",
    ),
    (
        "scaled",
        SCALED.replace("A[vi, vj] *", "C[vi, vj] + A[vi, vj] *"),
        "E_UNINITIALISED C[0, 0] read before written, and 0 buffers more",
    ),
    (
        "scaled",
        SCALED.replace(STORE, f"{STORE}\n            A[vi, vj] = T.float32(0)"),
        "E_INPUT_WRITTEN 1 inputs written, first parameter 0, A",
    ),
    (
        "scaled",
        SCALED.replace(STORE, f"if A[0, 0] != T.float32(0):\n                {STORE}"),
        "E_BRANCH 1 branches on input values, first IfThenElse on parameter 0, A",
    ),
    (
        "scaled",
        SCALED.replace("T.float32(2)", f"({TABLE})"),
        "E_LITERAL 70 different constants in scaled, at most 65 are allowed",
    ),
    (
        "scaled",
        SCALED.replace("T.float32(2)", 'T.call_extern("float32", "cblas_sgemm", 2)'),
        "E_CALL 1 foreign operators in scaled, first tirx.call_extern:cblas_sgemm",
    ),
    (
        "scaled",
        SCALED.replace(STORE, f"{ACCESSES}\n            {STORE} * T.Cast('float32', {IS_NULL})"),
        "E_ADDRESS 2 operators on addresses in scaled, first tirx.buffer_data",
    ),
    (
        "scaled",
        SCALED.replace("for i, j in T.grid(80, 8)", SKIPPED),
        "E_ANNOTATION 1 annotations that are no hints in scaled, first pragma_debug_skip_region",
    ),
    (
        "scaled",
        SCALED.replace(STORE, f"T.reads(); T.writes(C[vi, vj])\n            {STORE}"),
        "E_MALFORMED 1 uses not declared, first of A in block C",
    ),
    (
        "scaled",
        SCALED.replace("    for i, j", f"    {HUGE}\n    for i, j"),
        "E_MEMORY 1.28e+10 bytes of temporaries in scaled, at most 4294967296 are allowed",
    ),
    (
        "summed",
        SUMMED.replace("DTYPE", "float16"),
        "E_DTYPE accumulate float16, where summed has accumulate float32, compute float32; 3 such",
    ),
    (
        "summed",
        SUMMED.replace("DTYPE", "bfloat16"),
        "E_DTYPE accumulate bfloat16, where summed has accumulate float32, compute float32; 3 such",
    ),
    (
        "summed",
        SUMMED.replace("DTYPE", "float32").replace(
            "for i, k in T.grid(80, 8):\n        with",
            "for k in T.parallel(8):\n      for i in range(80):\n        with",
        ),
        "E_RACE 2 racing writes, first to total in parallel k",
    ),
]


@pytest.mark.parametrize(("name", "script", "expected"), REFUSED)
def test_a_gate_refuses_with_code_number_and_place(name: str, script: str, expected: str) -> None:
    assert str(verdict_of(candidate_of(parsed(script)), task_of(name))) == expected


def test_cheating_kinds_are_suspicious() -> None:
    kinds = {}
    for name, script, _ in REFUSED:
        verdict = verdict_of(candidate_of(parsed(script)), task_of(name))
        kinds[verdict.code] = verdict.suspicious
    honest = {"E_COVERAGE", "E_BOUNDS", "E_UNINITIALISED", "E_RACE", "E_MEMORY"}
    assert {code for code, suspicious in kinds.items() if not suspicious} == honest


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_same_or_wider_dtypes_are_accepted(dtype: str) -> None:
    candidate = Workbench(task_of("summed")).apply(Rewrite(SUMMED.replace("DTYPE", dtype)))
    assert isinstance(candidate, Candidate), str(candidate)
    assert str(verdict_of(candidate, task_of("summed"))) == "accepted"


def test_a_choice_between_values_is_no_branch() -> None:
    chosen = SCALED.replace(STORE, f"{STORE.partition('=')[0]}= T.Select(A[vi, vj] > T.float32(0),"
                            " A[vi, vj], A[vi, vj]) * T.float32(2)")  # fmt: skip
    assert str(verdict_of(candidate_of(parsed(chosen)), task_of("scaled"))) == "accepted"


def test_a_branch_of_the_untuned_function_may_stay() -> None:
    script = SCALED.replace(STORE, f"if A[vi, vj] > T.float32(0):\n                {STORE}")
    mod = tvm.IRModule({"main": parsed(script)})
    task = make_task("branched", mod, AVX512)
    assert str(verdict_of(candidate_of(mod["main"]), task)) == "accepted"


def test_instructions_are_called_where_they_were_tensorized() -> None:
    """The same body without the trace that put it there is foreign."""
    bench = Workbench(
        make_task("int8", parse_operator("op:matmul_int8:m=6,n=64,k=64").tir(), AVX512)
    )
    (first, *_) = bench.rule_spaces
    candidate = bench.apply(Decisions("rule", first.trace))
    assert isinstance(candidate, Candidate)
    assert "vpdpbusd" in candidate.sch.mod.script()
    assert str(verdict_of(candidate, bench.task)) == "accepted"
    stripped = candidate_of(candidate.sch.mod["main"])
    assert verdict_of(stripped, bench.task).code == "E_CALL"


def test_work_ratio_counts_what_is_left_out() -> None:
    half = SCALED.replace("T.grid(80, 8)", "T.grid(40, 8)")
    assert work_ratio(candidate_of(parsed(SCALED)), task_of("scaled")) == 1.0
    assert work_ratio(candidate_of(parsed(half)), task_of("scaled")) == 0.5


@pytest.mark.parametrize("operator", known_operators())
def test_what_rules_make_is_never_refused(operator: str) -> None:
    found = known_operators()[operator]
    for target in (AVX2, AVX512):
        for dtype in found.dtypes:
            bench = Workbench(make_task(operator, found.tir(dtype=dtype), target))
            for space in bench.rule_spaces:
                candidate = bench.apply(Decisions(space.name, space.trace))
                assert isinstance(candidate, Candidate), f"{space.name}: {candidate}"
                assert str(verdict_of(candidate, bench.task)) == "accepted", space.name


@pytest.mark.parametrize("spec", QUICK_SUITE)
def test_random_schedules_are_never_refused(spec: str) -> None:
    """MetaSchedule's own, drawn at random: legal by construction."""
    bench = Workbench(make_task(spec, parse_operator(spec).tir(), AVX512))
    wanted, checked = NUM_RANDOM // len(QUICK_SUITE), 0
    for seed in range(4 * wanted):
        candidate = drawn(bench, seed)
        if candidate is None:
            continue
        assert str(verdict_of(candidate, bench.task)) == "accepted"
        checked += 1
        if checked == wanted:
            return
    pytest.fail(f"only {checked} of {wanted} random schedules could be applied")


def drawn(bench: Workbench, seed: int) -> Candidate | None:
    spaces = bench.sketch_schedules
    sch = Schedule(bench.mod, seed=seed + 1, debug_mask="none", error_render_level="none")
    try:
        with bench.tvm_target:
            spaces[seed % len(spaces)].trace.apply_to_schedule(
                sch, remove_postproc=True, decision_provider=lambda *_: None
            )
    except TVM_ERRORS:
        return None
    found = bench.apply(Decisions("sketch", trace_text(sch.trace)))
    return found if isinstance(found, Candidate) else None
