# SPDX-License-Identifier: Apache-2.0
"""Proposals applied to odd functions: a right schedule or a named refusal, never an abort.

The inputs are those that TVM's users reported as crashing the tuner.
"""

from __future__ import annotations

import pytest
import tvm
from tvm import te, topi
from tvm.script import tirx as T

from kope_tvm import registry
from kope_tvm.gates import load_gates
from kope_tvm.outcome import Verdict
from kope_tvm.panel import Panel
from kope_tvm.proposal import Decisions, Plan
from kope_tvm.round import Run, Tuning
from kope_tvm.seat import Seat
from kope_tvm.target import Facts, TargetSpec
from kope_tvm.workbench import Workbench, make_task

_X86 = TargetSpec(
    "x86",
    {"kind": "llvm", "mcpu": "haswell", "num-cores": 2},
    Facts("avx2", 256, 16, 2, 32768, 262144, 1 << 23),
)


def _mod(*tensors: te.Tensor) -> tvm.IRModule:
    return tvm.IRModule({"main": te.create_prim_func(list(tensors))})


def _full_max() -> tvm.IRModule:
    data = te.placeholder((64, 32), name="data")
    return _mod(data, topi.max(data))


def _empty_take() -> tvm.IRModule:
    table = te.placeholder((5, 4), name="table")
    rows = te.placeholder((0,), "int32", name="rows")
    return _mod(table, rows, topi.take(table, rows, axis=0, mode="clip"))


def _empty_exp() -> tvm.IRModule:
    data = te.placeholder((0, 4), name="data")
    return _mod(data, topi.exp(data))


def _searchsorted() -> tvm.IRModule:
    @T.prim_func(s_tir=True)
    def main(
        line: T.Buffer((10,), "int32"),
        wanted: T.Buffer((5,), "int32"),
        out: T.Buffer((5,), "int32"),
    ) -> None:
        for i in range(5):
            with T.sblock("search"):
                vi = T.axis.spatial(5, i)
                T.reads(line[0:10], wanted[vi])
                T.writes(out[vi])
                out[vi] = 0
                while T.And(out[vi] < 10, line[T.min(out[vi], 9)] < wanted[vi]):
                    out[vi] = out[vi] + 1

    return tvm.IRModule({"main": main})


_ODD = {"B1": _searchsorted, "B3 take": _empty_take, "B3 exp": _empty_exp, "B4": _full_max}


@pytest.mark.parametrize("case", list(_ODD), ids=list(_ODD))
def test_odd_functions_get_through_a_round(case: str) -> None:
    bench = Workbench(make_task(case, _ODD[case](), _X86))
    proposers = {
        name: registry.load("proposers", name)(Seat(bench)) for name in ("rules", "sketch")
    }
    tuning = Tuning(
        bench.task,
        Run("r", 1, "tvm"),
        Panel(proposers),
        bench.apply,
        load_gates(),
        lambda task: (),
        lambda experience, candidate: None,
    )
    candidates = tuning.candidates(4, 4)
    assert len({candidate.state for candidate in candidates}) == len(candidates) <= 4
    assert all(trial.verdict.code for trial in tuning.trials)


def test_a_trace_of_another_function_is_refused_with_tvms_reason() -> None:
    ours = Workbench(make_task("max", _full_max(), _X86))
    trace = '[[["GetSBlock", [], ["nowhere", "main"], ["b0"]]], []]'
    verdict = ours.apply(Decisions("rule:x", trace))
    assert isinstance(verdict, Verdict)
    assert str(verdict) == "E_REPLAY get-block: Cannot find a block with the name: nowhere"


def test_a_plan_without_steps_is_refused() -> None:
    verdict = Workbench(make_task("max", _full_max(), _X86)).apply(Plan(()))
    assert str(verdict) == "E_STEP steps: expected a list of steps, got []"


def test_the_key_of_a_task_is_the_same_in_every_process() -> None:
    assert make_task("a", _full_max(), _X86).key == make_task("b", _full_max(), _X86).key
    assert make_task("a", _full_max(), _X86).key != make_task("a", _empty_exp(), _X86).key
