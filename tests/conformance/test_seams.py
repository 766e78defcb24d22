# SPDX-License-Identifier: Apache-2.0
"""Whatever stands in a seam's folder keeps its contract; a new file is tested without an edit."""

from __future__ import annotations

import json

import pytest
import tvm
from tvm import te, topi

from kope_tvm import registry
from kope_tvm.context import Context
from kope_tvm.errors import UsageError
from kope_tvm.outcome import Verdict
from kope_tvm.proposal import Decisions
from kope_tvm.seat import Seat
from kope_tvm.target import Facts, TargetSpec
from kope_tvm.workbench import Workbench, make_task

_X86 = TargetSpec(
    "x86",
    {"kind": "llvm", "mcpu": "haswell", "num-cores": 2},
    Facts("avx2", 256, 16, 2, 32768, 262144, 1 << 23),
)
_UNKNOWN = TargetSpec("odd", {"kind": "llvm", "num-cores": 1}, Facts("nonesuch", 0, 0, 1))


def _functions() -> dict[str, tvm.IRModule]:
    left, right = te.placeholder((24, 40), name="left"), te.placeholder((40, 48), name="right")
    k = te.reduce_axis((0, 40), name="k")
    product = te.compute((24, 48), lambda i, j: te.sum(left[i, k] * right[k, j], axis=k))
    image = te.placeholder((1, 8, 14, 14), name="image")
    kernel = te.placeholder((16, 8, 3, 3), name="kernel")
    found = {
        "matmul": [left, right, product],
        "conv2d": [image, kernel, topi.nn.conv2d_nchw(image, kernel, 1, 1, 1)],
        "softmax": [left, topi.nn.softmax(left)],
        "sum": [left, topi.sum(left, axis=1)],
        "relu": [left, topi.nn.relu(left)],
    }
    return {name: tvm.IRModule({"main": te.create_prim_func(ts)}) for name, ts in found.items()}


@pytest.mark.parametrize("op", list(_functions()))
@pytest.mark.parametrize("rule", registry.names("schedules"))
def test_a_rule_gives_tunable_traces_that_replay_or_says_not_mine(rule: str, op: str) -> None:
    mod = _functions()[op]
    for sch in registry.load("schedules", rule)(mod["main"], _X86):
        instructions, decisions = sch.trace.as_json()
        assert not any("unsafe" in str(one[0]).lower() for one in instructions)
        assert decisions, f"{rule} leaves nothing to tune on {op}"
        fresh = tvm.s_tir.Schedule(mod)
        sch.trace.apply_to_schedule(fresh, remove_postproc=False)
        tvm.ir.assert_structural_equal(fresh.mod, sch.mod)


@pytest.mark.parametrize("rule", registry.names("schedules"))
def test_a_rule_leaves_an_unknown_isa_alone(rule: str) -> None:
    for mod in _functions().values():
        assert list(registry.load("schedules", rule)(mod["main"], _UNKNOWN)) == []


@pytest.mark.parametrize("name", registry.names("proposers"))
def test_a_proposer_gives_at_most_what_was_asked_and_only_what_applies(name: str) -> None:
    bench = Workbench(make_task("matmul", _functions()["matmul"], _X86))
    proposer = registry.load("proposers", name)(Seat(bench))
    context = Context(bench.task, round_no=1, num_wanted=3, trials_left=9, seed=1)
    proposals = list(proposer.propose(context))
    assert len(proposals) <= 3
    for proposal in proposals:
        assert proposal.origin.proposer == name
        assert isinstance(proposal, Decisions)
        json.loads(proposal.trace)
        assert not isinstance(bench.apply(proposal), Verdict)


@pytest.mark.parametrize("name", registry.names("gates"))
def test_a_gate_accepts_the_untuned_function(name: str) -> None:
    bench = Workbench(make_task("matmul", _functions()["matmul"], _X86))
    candidate = bench.apply(Decisions("rule:none", "[[], []]"))
    assert not isinstance(candidate, Verdict)
    gate = registry.load("gates", name)()
    assert isinstance(gate.cost, int)
    assert gate.check(candidate, bench.task).accepted


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(UsageError) as caught:
        registry.load("gates", "nonesuch")
    assert str(caught.value) == (
        f"unknown gate 'nonesuch'; known: {', '.join(registry.names('gates'))}; "
        "a package can add one with an entry point in group 'kope_tvm.gates'"
    )
