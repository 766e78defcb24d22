# SPDX-License-Identifier: Apache-2.0
"""The last trials of a run undo single decisions of its best."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import tvm
from tvm import te

from kope_tvm.candidate import Candidate
from kope_tvm.context import Context, Trial
from kope_tvm.outcome import Measurement, accept
from kope_tvm.panel import Panel
from kope_tvm.proposal import Decisions, Origin, Plan, Proposal, Rewrite, Step
from kope_tvm.proposers.rewind import Rewind
from kope_tvm.seat import Seat
from kope_tvm.space import Space
from kope_tvm.target import Facts, TargetSpec
from kope_tvm.workbench import Workbench, make_task

_X86 = TargetSpec(
    "x86",
    {"kind": "llvm", "mcpu": "haswell", "num-cores": 2},
    Facts("avx2", 256, 16, 2, 32768, 262144, 1 << 23),
)
_PLAN = Plan(
    (
        Step("split", {"block": "C", "loop": "j", "factors": [6, 8], "into": ["jo", "ji"]}),
        Step("reorder", {"block": "C", "loops": ["jo", "k", "ji"]}),
        Step("vectorize", {"block": "C", "loop": "ji"}),
    )
)


@pytest.fixture(scope="module")
def bench() -> Workbench:
    a = te.placeholder((64, 32), name="A")
    b = te.placeholder((32, 48), name="B")
    k = te.reduce_axis((0, 32), name="k")
    c = te.compute((64, 48), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    mod = tvm.IRModule({"main": te.create_prim_func([a, b, c])})
    return Workbench(make_task("matmul", mod, _X86))


def _trial(bench: Workbench, proposal: Proposal, secs: float = 1e-3) -> Trial:
    applied = bench.apply(proposal)
    assert isinstance(applied, Candidate), applied
    return Trial(applied.state, proposal, accept("static"), Measurement((secs,)))


def _context(bench: Workbench, trials: Sequence[Trial], *, wanted: int, left: int) -> Context:
    return Context(bench.task, 2, wanted, left, 1, (), tuple(trials))


def _proposed(
    bench: Workbench, trials: Sequence[Trial], *, rewind: int, wanted: int, left: int
) -> Sequence[Proposal]:
    context = _context(bench, trials, wanted=wanted, left=left)
    return Rewind(Seat(bench, rewind=rewind)).propose(context)


def _turned(bench: Workbench) -> Decisions:
    """A rule's guess with its first knob one step away from it."""
    space = bench.rule_spaces[0]
    knob = space.knobs[0]
    assert isinstance(knob.value, int)
    return Decisions(space.name, space.turned({knob.index: 0 if knob.value else 1}).trace)


def test_it_waits_for_the_last_trials(bench: Workbench) -> None:
    trials = [_trial(bench, _turned(bench))]
    counts = [
        len(_proposed(bench, trials, rewind=3, wanted=4, left=left)) for left in (20, 7, 6, 5, 4)
    ]
    # A round of four leaves 16, 3, 2, 1 and no trials.
    assert counts == [0, 0, 1, 2, 3]
    assert _proposed(bench, trials, rewind=0, wanted=4, left=4) == []
    assert _proposed(bench, [], rewind=4, wanted=4, left=4) == []


def test_a_decision_goes_back_to_the_guess_and_says_so(bench: Workbench) -> None:
    trial = _trial(bench, _turned(bench))
    found = _proposed(bench, [trial], rewind=16, wanted=16, left=16)
    guess = bench.rule_spaces[0]
    first = found[0]
    assert isinstance(first, Decisions)
    assert Space(first.space, first.trace).knobs == guess.knobs
    assert all(one.origin.parent == trial.state for one in found)
    assert all(one.origin.change.startswith("undo #") for one in found)
    assert all(one.origin.change.count("->") == 1 for one in found)
    assert all(isinstance(bench.apply(one), Candidate) for one in found)


def test_a_plan_is_undone_step_by_step(bench: Workbench) -> None:
    found = _proposed(bench, [_trial(bench, _PLAN)], rewind=9, wanted=9, left=9)
    left = [[step.primitive for step in one.steps] for one in found if isinstance(one, Plan)]
    # Without the split neither of the loops that it makes is there to be moved or vectorised.
    assert left == [["split", "vectorize"], ["split", "reorder"]]
    assert [one.origin.change for one in found] == [
        "undo reorder block=C loops=['jo', 'k', 'ji']",
        "undo vectorize block=C loop=ji",
    ]
    assert all(isinstance(bench.apply(one), Candidate) for one in found)


def test_a_rewrite_keeps_its_script(bench: Workbench) -> None:
    script = str(bench.mod["main"].script(show_meta=False)).split("\n\n", 1)[-1]
    trials = [_trial(bench, Rewrite(script, _PLAN)), _trial(bench, Rewrite(script), 2e-3)]
    found = _proposed(bench, trials, rewind=9, wanted=9, left=9)
    assert [one.script for one in found if isinstance(one, Rewrite)] == [script, script]


def test_the_fastest_comes_first_and_what_undoes_is_not_undone(bench: Workbench) -> None:
    fast = _trial(bench, _PLAN)
    undoing = Plan(_PLAN.steps[:1], Origin("rewind", fast.state, "undo reorder"))
    trials = [_trial(bench, _turned(bench), 2e-3), fast, _trial(bench, undoing, 5e-4)]
    found = _proposed(bench, trials, rewind=99, wanted=99, left=99)
    parents = list(dict.fromkeys(one.origin.parent for one in found))
    assert parents == [fast.state, trials[0].state]


def test_nobody_else_is_asked_for_the_last_trials(bench: Workbench) -> None:
    class Other:
        def propose(self, context: Context) -> Sequence[Proposal]:
            return [Plan((Step("unroll", {"block": "C", "loop": str(n)}),)) for n in range(99)]

    panel = Panel({"rewind": Rewind(Seat(bench, rewind=2)), "sketch": Other(), "chat": Other()})
    context = _context(bench, [_trial(bench, _PLAN)], wanted=2, left=2)
    assert [one.origin.proposer for one in panel.propose(context)] == ["rewind", "rewind"]
