# SPDX-License-Identifier: Apache-2.0
"""What worked before is proposed again in every lane, then what lies next to the fastest trials."""

from __future__ import annotations

from dataclasses import replace

import pytest
import tvm
from tvm import te

from experiences import recalled
from kope_tvm.candidate import Candidate
from kope_tvm.context import Context, Trial
from kope_tvm.memory.experience import Recalled
from kope_tvm.outcome import Measurement, accept
from kope_tvm.panel import Panel
from kope_tvm.proposal import (
    Decisions,
    Plan,
    Proposal,
    Rewrite,
    Step,
    lane_of,
    proposal_text,
    space_of,
)
from kope_tvm.proposers.experience import Experience as Proposer
from kope_tvm.proposers.rules import Rules
from kope_tvm.proposers.sketch import Sketch
from kope_tvm.seat import Seat
from kope_tvm.space import Space
from kope_tvm.strategy import _is_legal_by_construction
from kope_tvm.target import Facts, TargetSpec
from kope_tvm.task import Task
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


def _mod(rows: int = 64, cols: int = 48) -> tvm.IRModule:
    a = te.placeholder((rows, 32), name="A")
    b = te.placeholder((32, cols), name="B")
    k = te.reduce_axis((0, 32), name="k")
    c = te.compute((rows, cols), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    return tvm.IRModule({"main": te.create_prim_func([a, b, c])})


@pytest.fixture(scope="module")
def bench() -> Workbench:
    return Workbench(make_task("matmul", _mod(), _X86))


@pytest.fixture(scope="module")
def script(bench: Workbench) -> str:
    return str(bench.mod["main"].script(show_meta=False)).split("\n\n", 1)[-1]


def _recalled(proposal: Proposal, task: Task, value: float = 1.0) -> Recalled:
    why = "matmul on this machine"
    found: Recalled = recalled(
        proposal, task, proposer="chat", similarity=1.0, value=value, why=why
    )
    return found


def _ideas(
    bench: Workbench,
    *,
    recalled: tuple[Recalled, ...] = (),
    trials: tuple[Trial, ...] = (),
    wanted: int = 100,
) -> list[Proposal]:
    context = Context(
        task=bench.task,
        round_no=1,
        num_wanted=wanted,
        trials_left=100,
        seed=1,
        recalled=recalled,
        trials=trials,
    )
    return list(Proposer(Seat(bench)).propose(context))


def _trial(bench: Workbench, proposal: Proposal, secs: float = 1e-3) -> Trial:
    applied = bench.apply(proposal)
    assert isinstance(applied, Candidate), applied
    return Trial(applied.state, proposal, accept("static"), Measurement((secs,)))


@pytest.mark.parametrize("lane", ["decisions", "plan", "rewrite"])
def test_what_worked_on_the_same_task_is_replayed_as_it_was(
    lane: str, bench: Workbench, script: str
) -> None:
    (space, *_) = bench.rule_spaces
    proposals: dict[str, Proposal] = {
        "decisions": Decisions(space.name, space.trace),
        "plan": _PLAN,
        "rewrite": Rewrite(script, _PLAN),
    }
    given = proposals[lane]
    (found,) = _ideas(bench, recalled=(_recalled(given, bench.task),))
    assert (lane_of(found), proposal_text(found)) == (lane, proposal_text(given))
    assert found.origin.cites == ("old",)
    assert found.origin.change == "recalled: matmul on this machine"
    assert isinstance(bench.apply(found), Candidate)


def test_slow_ones_damaged_ones_and_what_was_said_are_not_replayed(bench: Workbench) -> None:
    slow = _recalled(_PLAN, bench.task, value=0.7)
    good = _recalled(_PLAN, bench.task)
    damaged = replace(good, experience=replace(good.experience, proposal="no JSON"))
    assert _ideas(bench, recalled=(slow, damaged)) == []
    assert len(_ideas(bench, recalled=(good, good))) == 1
    assert _ideas(bench, recalled=(good,), wanted=0) == []


def test_each_space_is_judged_by_its_own_best(bench: Workbench, script: str) -> None:
    (space, *_) = bench.rule_spaces
    best = _recalled(Rewrite(script, _PLAN), bench.task)
    good = _recalled(Decisions(space.name, space.trace), bench.task, value=0.6)
    knob = space.knobs[0]
    turned = space.turned({knob.index: 0 if knob.value else 1})
    near = _recalled(Decisions(space.name, turned.trace), bench.task, value=0.45)
    slow = _recalled(_PLAN, bench.task, value=0.4)
    found = _ideas(bench, recalled=(best, good, near, slow))
    assert [lane_of(one) for one in found] == ["rewrite", "decisions"]


def test_the_best_of_each_space_comes_before_the_second_of_any(bench: Workbench) -> None:
    (space, *_) = bench.rule_spaces
    turned = [space.turned({knob.index: 0 if knob.value else 1}).trace for knob in space.knobs[:2]]
    recalled = [
        *(_recalled(Decisions(space.name, trace), bench.task) for trace in turned),
        _recalled(_PLAN, bench.task, value=0.7),
    ]
    found = _ideas(bench, recalled=tuple(recalled))
    assert [lane_of(one) for one in found] == ["decisions", "plan", "decisions"]


def test_a_plan_of_a_similar_task_is_fitted_to_this_one(bench: Workbench, script: str) -> None:
    other = make_task("wider", _mod(cols=80), _X86)
    (found,) = _ideas(bench, recalled=(_recalled(_PLAN, other), _recalled(Rewrite(script), other)))
    assert isinstance(found, Plan)
    assert found.steps == _PLAN.steps
    narrow = Workbench(make_task("narrow", _mod(cols=20), _X86))
    (fitted,) = _ideas(narrow, recalled=(_recalled(_PLAN, other),))
    assert isinstance(fitted, Plan)
    # Of 20 the divisor nearest to 8 in ratio is 10; the outer loop gets what is left.
    assert fitted.steps[0].args["factors"] == [2, 10]
    assert isinstance(narrow.apply(fitted), Candidate)


def test_a_plan_whose_names_do_not_fit_is_not_proposed(bench: Workbench) -> None:
    alien = Plan((Step("vectorize", {"block": "nowhere", "loop": "ji"}),))
    other = make_task("wider", _mod(cols=80), _X86)
    assert _ideas(bench, recalled=(_recalled(alien, other),)) == []


def test_neighbours_of_a_fast_plan_are_its_tiles_turned(bench: Workbench) -> None:
    trial = _trial(bench, _PLAN)
    found = _ideas(bench, trials=(trial,))
    tiles: set[object] = set()
    for one in found:
        assert isinstance(one, Decisions)
        assert (one.space, one.origin.parent) == ("plan", trial.state)
        assert isinstance(bench.apply(one), Candidate)
        tiles.update(knob.value for knob in Space(one.space, one.trace).knobs)
    # One prime of 6 x 8 moved to the other side.
    assert tiles == {(3, 16), (2, 24), (12, 4)}
    assert found[0].origin.change.count("->") == 1


def test_neighbours_of_a_fast_rewrite_keep_its_script(bench: Workbench, script: str) -> None:
    trial = _trial(bench, Rewrite(script, _PLAN))
    first, *_ = _ideas(bench, trials=(trial,))
    assert isinstance(first, Rewrite)
    assert isinstance(first.then, Decisions)
    assert (first.script, first.then.space) == (script, "plan")
    assert first.origin.parent == trial.state
    again = _trial(bench, first)
    assert again.state != trial.state
    (second, *_) = _ideas(bench, trials=(again,))
    assert isinstance(second, Rewrite)
    assert second.origin.change.count("->") == 1


def test_a_rewrite_left_as_written_is_scheduled_by_the_rules(bench: Workbench, script: str) -> None:
    trial = _trial(bench, Rewrite(script))
    found = _ideas(bench, trials=(trial,))
    spaces = [space_of(one.then) for one in found if isinstance(one, Rewrite) and one.then]
    assert spaces
    assert spaces == [space.name for space in bench.rule_spaces]
    assert isinstance(bench.apply(found[0]), Candidate)


def test_the_fastest_trials_take_turns_whatever_their_lane(bench: Workbench) -> None:
    (space, *_) = bench.rule_spaces
    plan, decisions = _trial(bench, _PLAN), _trial(bench, Decisions(space.name, space.trace), 2e-3)
    found = _ideas(bench, trials=(decisions, plan), wanted=4)
    assert [one.origin.parent for one in found] == [plan.state, decisions.state] * 2


def test_where_nothing_is_checked_plans_and_rewrites_are_not_recalled(
    bench: Workbench, script: str
) -> None:
    (space, *_) = bench.rule_spaces
    given = (
        Decisions(space.name, space.trace),
        Decisions("plan", space.trace),
        _PLAN,
        Rewrite(script),
    )
    legal = [one for one in given if _is_legal_by_construction(_recalled(one, bench.task))]
    assert legal == [given[0]]


def test_the_first_round_holds_two_that_were_carried_over(bench: Workbench) -> None:
    other = Workbench(make_task("wider", _mod(cols=96), _X86))
    spaces = [one.turned({one.knobs[0].index: 0}) for one in other.rule_spaces[:2]]
    given = [_recalled(Decisions(one.name, one.trace), other.task) for one in spaces]
    recalled = tuple(replace(one, similarity=0.9) for one in given)
    seat = Seat(bench)
    panel = Panel({"experience": Proposer(seat), "rules": Rules(seat), "sketch": Sketch(seat)})
    context = Context(bench.task, 1, num_wanted=4, trials_left=32, seed=1, recalled=recalled)
    found = panel.propose(context)
    assert [one.origin.proposer for one in found] == ["experience", "experience", "rules", "sketch"]
    assert all(one.origin.source for one in found[:2])
