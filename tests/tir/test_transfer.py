# SPDX-License-Identifier: Apache-2.0
"""What was learned on one machine or shape becomes a legal proposal on another."""

from __future__ import annotations

import json

import pytest
import tvm
import tvm_ffi
from tvm import te, tirx, topi

from experiences import recalled
from kope_tvm.candidate import Candidate
from kope_tvm.context import Context
from kope_tvm.memory.experience import Recalled
from kope_tvm.memory.memory import Memory
from kope_tvm.memory.rows import experience_key
from kope_tvm.proposal import (
    Decisions,
    Plan,
    Proposal,
    Rewrite,
    Step,
    proposal_text,
    space_of,
)
from kope_tvm.proposers.algebra import Algebra
from kope_tvm.relative.wording import told
from kope_tvm.seat import Seat
from kope_tvm.space import Space
from kope_tvm.target import Facts, TargetSpec
from kope_tvm.task import Task
from kope_tvm.transfer import Transfer
from kope_tvm.workbench import Workbench, make_task, trace_text


def _riscv(vlen_bits: int) -> TargetSpec:
    mattr = ["+m", "+a", "+f", "+d", "+c", "+zve64d", f"+zvl{vlen_bits}b"]
    config = {
        "kind": "llvm",
        "mtriple": "riscv64-unknown-linux-gnu",
        "mcpu": "generic-rv64",
        "mabi": "lp64d",
        "mattr": mattr,
        "num-cores": 8,
    }
    return TargetSpec(f"rvv{vlen_bits}", config, Facts("rvv", vlen_bits, 32, 8, 32768, 524288))


_AVX512 = TargetSpec(
    "avx512",
    {"kind": "llvm", "mcpu": "skylake-avx512", "num-cores": 8},
    Facts("avx512", 512, 32, 8, 32768, 524288),
)
_RVV256, _RVV1024 = _riscv(256), _riscv(1024)
_PLAN = Plan(
    (
        Step("split", {"block": "C", "loop": "j", "factors": [-1, 16], "into": ["jo", "ji"]}),
        Step("reorder", {"block": "C", "loops": ["jo", "k", "ji"]}),
        Step("vectorize", {"block": "C", "loop": "ji"}),
    )
)


def _bench(
    target: TargetSpec, rows: int = 64, cols: int = 512, dtype: str = "float32"
) -> Workbench:
    a = te.placeholder((rows, 128), dtype, name="A")
    b = te.placeholder((128, cols), dtype, name="B")
    k = te.reduce_axis((0, 128), name="k")
    c = te.compute((rows, cols), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    mod = tvm.IRModule({"main": te.create_prim_func([a, b, c])})
    return Workbench(make_task("matmul", mod, target))


def _recalled(proposal: Proposal, task: Task) -> Recalled:
    found: Recalled = recalled(
        proposal, task, proposer="sketch", similarity=0.9, value=1.0, why="matmul elsewhere"
    )
    return found


def _sketch(bench: Workbench) -> Decisions:
    """A stock tiling that vectorises 16 columns."""
    space = bench.sketch_spaces[0]
    rows, cols, depth, *_ = space.knobs
    turned = space.turned(
        {rows.index: (8, 1, 8, 1), cols.index: (8, 4, 1, 16), depth.index: (32, 4)}
    )
    return Decisions("sketch", turned.trace)


def _lanes(candidate: Candidate) -> set[int]:
    """Extents of the loops that the schedule vectorises."""
    found: list[tirx.For] = []
    tvm_ffi.structural_walk(candidate.sch.mod["main"].body, [(tirx.For, found.append)], order="pre")
    return {int(loop.extent) for loop in found if loop.kind == tirx.ForKind.VECTORIZED}


def _first(bench: Workbench, recalled: Recalled) -> Proposal:
    return Transfer(bench, None).proposals(recalled)[0]


@pytest.mark.parametrize(("target", "lanes"), [(_RVV1024, 64), (_AVX512, 32)])
def test_two_vectors_of_256_bits_are_two_vectors_of_another_machine(
    target: TargetSpec, lanes: int
) -> None:
    learned, here = _bench(_RVV256), _bench(target)
    recalled = _recalled(_sketch(learned), learned.task)
    found = _first(here, recalled)
    assert isinstance(found, Decisions)
    _, cols, *_ = Space("sketch", found.trace).knobs
    assert isinstance(cols.value, tuple)
    assert cols.value[-1] == lanes
    candidate = here.apply(found)
    assert isinstance(candidate, Candidate)
    assert lanes in _lanes(candidate)
    assert found.origin.source == experience_key(recalled.experience)
    assert "2 vlen]" in told(found.origin.relative)


def test_the_same_function_elsewhere_is_also_tried_as_it_was() -> None:
    learned, here = _bench(_RVV256), _bench(_AVX512)
    recalled = _recalled(_sketch(learned), learned.task)
    carried, replayed = Transfer(here, None).proposals(recalled)
    assert proposal_text(replayed) == recalled.experience.proposal
    assert proposal_text(carried) != recalled.experience.proposal
    assert replayed.origin.source == carried.origin.source != ""


def test_at_home_it_is_replayed_and_came_from_nowhere_else() -> None:
    bench = _bench(_RVV256)
    (found,) = Transfer(bench, None).proposals(_recalled(_sketch(bench), bench.task))
    assert (found.origin.source, found.origin.relative) == ("", "")


def test_another_dtype_has_other_vectors() -> None:
    learned, here = _bench(_AVX512, dtype="float32"), _bench(_AVX512, dtype="float64")
    found = _first(here, _recalled(_sketch(learned), learned.task))
    assert isinstance(found, Decisions)
    _, cols, *_ = Space("sketch", found.trace).knobs
    # 16 float32 are one register, which holds 8 float64.
    assert isinstance(cols.value, tuple)
    assert cols.value[-1] == 8
    assert isinstance(here.apply(found), Candidate)


def test_on_the_same_machine_only_the_shape_changes() -> None:
    learned, here = _bench(_RVV256), _bench(_RVV256, rows=96, cols=768)
    found = _first(here, _recalled(_sketch(learned), learned.task))
    assert isinstance(found, Decisions)
    rows, cols, depth, *_ = Space("sketch", found.trace).knobs
    assert [rows.value, cols.value, depth.value] == [(12, 1, 8, 1), (12, 4, 1, 16), (32, 4)]


def test_a_rule_of_one_instruction_set_speaks_to_that_of_another() -> None:
    learned, here = _bench(_RVV256), _bench(_AVX512)
    if not learned.rule_spaces:
        pytest.skip("no rule for matmul on RVV")
    space = learned.rule_spaces[0]
    for found in Transfer(here, None).proposals(
        _recalled(Decisions(space.name, space.trace), learned.task)
    )[:-1]:
        assert space_of(found).startswith("rule:matmul_x86")
        assert isinstance(here.apply(found), Candidate)


def test_a_plan_has_its_vectors_resized() -> None:
    learned, here = _bench(_RVV256), _bench(_RVV1024, cols=256)
    found = _first(here, _recalled(_PLAN, learned.task))
    assert isinstance(found, Plan)
    assert found.steps[0].args["factors"] == [4, 64]
    candidate = here.apply(found)
    assert isinstance(candidate, Candidate)
    assert _lanes(candidate) == {64}
    assert told(found.origin.relative) == "[rest, 2 vlen]"


def test_turned_knobs_of_a_plan_are_carried_too() -> None:
    learned, here = _bench(_RVV256), _bench(_RVV256, cols=384)
    applied = learned.apply(_PLAN)
    assert isinstance(applied, Candidate)
    space = Space("plan", trace_text(applied.sch.trace))
    turned = space.turned({space.knobs[0].index: (16, 32)})
    found = _first(here, _recalled(Decisions("plan", turned.trace), learned.task))
    assert isinstance(found, Decisions)
    assert [knob.value for knob in Space("plan", found.trace).knobs] == [(12, 32)]
    candidate = here.apply(found)
    assert isinstance(candidate, Candidate)
    assert _lanes(candidate) == {32}


def _softmax(target: TargetSpec, rows: int, cols: int) -> Workbench:
    a = te.placeholder((rows, cols), name="A")
    mod = tvm.IRModule({"main": te.create_prim_func([a, topi.nn.softmax(a)])})
    return Workbench(make_task("softmax", mod, target))


def _by_algebra(bench: Workbench) -> Rewrite:
    context = Context(bench.task, 1, num_wanted=1, trials_left=8, seed=1)
    (found,) = Algebra(Seat(bench)).propose(context)
    assert isinstance(found, Rewrite)
    return found


def test_how_a_rewrite_was_scheduled_is_carried_to_this_functions_own_rewrite() -> None:
    learned, here = _softmax(_AVX512, 256, 2048), _softmax(_AVX512, 512, 1024)
    given = _by_algebra(learned)
    assert isinstance(given.then, Decisions)
    space = Space(given.then.space, given.then.trace)
    knob = next(knob for knob in space.knobs if len(knob.options) > 2)
    turned = Decisions(space.name, space.turned({knob.index: len(knob.options) - 1}).trace)
    found = _first(here, _recalled(Rewrite(given.script, turned), learned.task))
    assert isinstance(found, Rewrite)
    assert isinstance(found.then, Decisions)
    assert found.script == _by_algebra(here).script != given.script
    (same,) = [one for one in Space("", found.then.trace).knobs if one.index == knob.index]
    assert same.shown == str(knob.options[-1])
    assert isinstance(here.apply(found), Candidate)


def test_the_same_functions_rewrite_keeps_its_script_on_another_machine() -> None:
    learned, here = _softmax(_RVV256, 256, 2048), _softmax(_AVX512, 256, 2048)
    given = _by_algebra(_softmax(_AVX512, 256, 2048))
    found = _first(here, _recalled(given, learned.task))
    assert isinstance(found, Rewrite)
    assert found.script == given.script
    assert isinstance(here.apply(found), Candidate)


def test_where_no_algebra_applies_the_plain_rules_are_told() -> None:
    learned, here = _softmax(_AVX512, 256, 2048), _bench(_AVX512)
    space = here.rule_spaces[0]
    given = Rewrite("whatever", Decisions(space.name, space.trace))
    found = _first(here, _recalled(given, learned.task))
    assert isinstance(found, Decisions)
    assert found.space == space.name


def test_what_another_function_lacks_is_not_proposed() -> None:
    learned, here = _bench(_RVV256), _bench(_RVV256, cols=384)
    trace = json.dumps([[["GetSBlock", [], ["D", "main"], ["b0"]]], []])
    for one in (Decisions("plan", trace), Decisions("rule:softmax_x86", trace), Rewrite("x = 1")):
        assert Transfer(here, None).proposals(_recalled(one, learned.task)) == ()


@pytest.mark.parametrize("trace", ["no JSON", "[]", "[[[1]],[]]", '[[["Split",[],[],[]]],[[0]]]'])
def test_a_damaged_trace_is_not_proposed(trace: str) -> None:
    learned, here = _bench(_RVV256), _bench(_RVV256, cols=384)
    for space in ("plan", "sketch", "rule:matmul_x86"):
        given = _recalled(Decisions(space, trace), learned.task)
        assert Transfer(here, None).proposals(given) == ()


def test_the_facts_of_the_other_machine_come_from_the_memory(tmp_path: object) -> None:
    learned, here = _bench(_RVV256), _bench(_RVV256, cols=384)
    with Memory.open(f"{tmp_path}/memory.sqlite") as memory:
        memory.note_machine(_RVV256)
        (found, *_) = Transfer(here, memory).proposals(_recalled(_sketch(learned), learned.task))
    # 8 x 64 of the output, 8 x 4 and 4 x 64 of the operands lie inside the outer reduction.
    assert " l1, " in told(found.origin.relative)
