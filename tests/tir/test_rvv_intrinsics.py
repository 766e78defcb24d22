# SPDX-License-Identifier: Apache-2.0
"""What the RISC-V rules tensorize with, and what they never may: kope's intrinsics and TVM's."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import tvm
from rule_checks import RVV, assert_replays, run, with_random_decisions
from tvm.s_tir import Schedule
from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

from kope_tvm import registry
from kope_tvm.candidate import Candidate
from kope_tvm.gates.intrinsics import Intrinsics
from kope_tvm.machine import load_target
from kope_tvm.operators import parse_operator
from kope_tvm.proposal import Decisions, Origin
from kope_tvm.sketch_space import sketch_context
from kope_tvm.verification import verify_work_dir
from kope_tvm.workbench import make_task, trace_text
from kope_tvm.wrong_intrinsics import wrong_intrinsic

WITH_V = {
    "kind": "llvm",
    "mtriple": "riscv64-unknown-linux-gnu",
    "mcpu": "spacemit-x60",
    "mabi": "lp64d",
    "num-cores": 1,
}
"""What TVM's own tag of the board says: the feature `v` is on."""


def _tensorized(sch: Schedule) -> list[str]:
    return [str(one.attrs[0]) for one in sch.trace.insts if one.kind.name == "Tensorize"]


@pytest.mark.parametrize("rows", [1, 3])
def test_packed_weights_are_right(rows: int) -> None:
    operator = parse_operator(f"op:matmul_nbits:m={rows},n=24,k=96,dtype=float32")
    func = operator.tir()["main"]
    rng = np.random.default_rng(3)
    feeds = [
        rng.uniform(-1, 1, (rows, 96)).astype("float32"),
        rng.integers(0, 256, (24, 3, 16)).astype("uint8"),
        rng.uniform(0.5, 2, (24, 3)).astype("float32"),
    ]
    wanted = operator.reference(*feeds)
    (space,) = registry.load("schedules", "matmul_nbits_rvv")(func, RVV)
    assert _tensorized(space) == ["kope_nibbles_32_float32", "kope_sum_16_float32"]
    assert_replays(func, space)
    for sch in (space, with_random_decisions(func, space, 1)):
        found = run(sch.mod, [*feeds, np.full_like(wanted, 77)])
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_packed_weights_are_not_for_what_is_unpacked() -> None:
    func = parse_operator("op:matmul:m=1,n=64,k=64,dtype=float32").tir()["main"]
    assert registry.load("schedules", "matmul_nbits_rvv")(func, RVV) == []


def test_int8_multiplies_by_a_scalar_register() -> None:
    """One `vwmacc.vx` a vector, and no widened splat."""
    spec = load_target("spacemit-k1")
    operator = parse_operator("op:matmul_int8:m=16,n=64,k=32,dtype=int8")
    func = operator.tir()["main"]
    first = registry.load("schedules", "matmul_rvv")(func, spec)[0]
    assert _tensorized(first) == ["kope_dot_16x2_zve32x"]
    made = tvm.compile(first.mod, target=Target(dict(spec.tvm_target)))
    text = made.mod.inspect_source("asm")
    assert "vwmacc.vx" in text
    assert "vwmacc.vv" not in text
    rng = np.random.default_rng(3)
    feeds = [rng.integers(-128, 128, each.shape).astype("int8") for each in operator.inputs]
    wanted = operator.reference(*feeds)
    found = run(first.mod, [*feeds, np.full_like(wanted, 77)])
    np.testing.assert_array_equal(found, wanted)


def test_tvms_wrong_dot_products_are_in_no_space() -> None:
    """Stock MetaSchedule tensorizes with them wherever `v` is on."""
    mod = parse_operator("op:matmul_int8:m=64,n=64,k=64,dtype=int8").tir()
    target = Target(WITH_V)
    with target:
        stock = ms.TuneContext(mod=mod, target=target, space_generator="post-order-apply")
        theirs = [trace_text(one.trace) for one in stock.generate_design_space()]
        context = sketch_context(mod, target, "main", 1)
        ours = [trace_text(one.trace) for one in context.generate_design_space()]
    assert any(wrong_intrinsic(one).startswith("rvv_dot_") for one in theirs)
    assert ours
    assert not any(map(wrong_intrinsic, ours))


def test_a_planted_record_is_found(tmp_path: Path) -> None:
    """Without a board: the name in the trace says enough."""
    mod = parse_operator("op:matmul_int8:m=64,n=64,k=64,dtype=int8").tir()
    target = Target(WITH_V)
    sch = _planted(mod)
    database = ms.database.JSONDatabase(work_dir=str(tmp_path))
    workload = database.commit_workload(mod)
    arguments = ms.arg_info.ArgInfo.from_entry_func(mod)
    record = ms.database.TuningRecord(sch.trace, workload, [1e-4], target, arguments)
    database.commit_tuning_record(record)
    (check,) = verify_work_dir(tmp_path, lambda text: None).records
    assert (check.verdict, check.code) == ("wrong", "E_INTRINSIC")
    task = make_task("main", mod, load_target("spacemit-k1"))
    proposal = Decisions("sketch", trace_text(sch.trace), Origin("sketch"))
    verdict = Intrinsics().check(Candidate(proposal, "s", sch), task)
    assert (verdict.accepted, verdict.code) == (False, "E_INTRINSIC")
    assert json.loads(trace_text(sch.trace))


def _planted(mod: tvm.IRModule) -> Schedule:
    sch = Schedule(mod)
    block = sch.get_sblock("matmul")
    sch.annotate(block, "meta_schedule.auto_tensorize", "rvv_dot_4i8_8x4i8_8i32")
    return sch
