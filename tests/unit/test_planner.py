# SPDX-License-Identifier: Apache-2.0
"""Which lane a model is asked for, in cases that a person would decide the same way."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from kope_tvm.context import Trial
from kope_tvm.memory.lessons import Lesson
from kope_tvm.outcome import Measurement, accept, refuse
from kope_tvm.planner import Choice, choose
from kope_tvm.proposal import Decisions, Plan, Proposal, Rewrite
from kope_tvm.target import Facts, TargetSpec
from kope_tvm.task import Features, Task

MACHINE = TargetSpec("host", {"kind": "llvm"}, Facts(isa="avx512", vlen_bits=512))
FLOATS = ("float32", "float32", "float32")


def _task(features: Features, mod_json: str = "") -> Task:
    return Task("t", "0", mod_json, MACHINE, features)


def _matmul(m: int, n: int, k: int, mod_json: str = "") -> Task:
    return _task(Features("matmul", (m, n), (k,), FLOATS, 2.0 * m * n * k, 0.0, 1), mod_json)


def _softmax() -> Task:
    return _task(Features("softmax", (512,), (1024,), FLOATS[:2], 0.0, 0.0, 4))


def _choose(
    task: Task,
    *,
    best: float = math.inf,
    roof: float = 0.0,
    lessons: Sequence[Lesson | str] = (),
    trials: Sequence[Trial] = (),
    has_rules: bool = False,
    has_sketch: bool = True,
) -> Choice:
    return choose(
        task,
        best_secs=best,
        baseline_secs=100.0,
        roof_secs=roof,
        lessons=lessons,
        trials=trials,
        has_rules=has_rules,
        has_sketch=has_sketch,
    )


def _trial(proposal: Proposal, secs: float) -> Trial:
    if math.isinf(secs):
        return Trial("s", proposal, refuse("apply", "E_STEP", "illegal"))
    return Trial("s", proposal, accept("device"), Measurement((secs,)))


DECISIONS, PLAN, REWRITE = Decisions("sketch", "[]"), Plan(()), Rewrite("def main(): ...")


def test_near_the_roof_there_is_nothing_to_ask() -> None:
    choice = _choose(_matmul(512, 512, 512), best=1.04, roof=1.0, has_rules=True)
    assert not choice.worth_asking
    assert choice.reason == "96% of the roof: nothing to win"
    assert choice.lanes[0] == "decisions"


def test_a_time_below_the_roof_is_not_more_than_all_of_it() -> None:
    choice = _choose(_matmul(512, 512, 512), best=0.9, roof=1.0)
    assert choice.reason == "100% of the roof: nothing to win"


@pytest.mark.parametrize(
    ("task", "best", "has_rules", "lanes"),
    [
        (_matmul(512, 512, 512), 1.3, True, ("decisions", "plan", "rewrite")),
        (_matmul(512, 512, 512), 3.0, True, ("decisions", "plan", "rewrite")),
        (_matmul(512, 512, 512), 3.0, False, ("decisions", "plan", "rewrite")),
        (_matmul(81, 41, 19), 3.0, False, ("plan", "decisions", "rewrite")),
        (_matmul(540, 516, 332), 3.0, False, ("plan", "decisions", "rewrite")),
        (_matmul(540, 516, 332), 1.2, True, ("decisions", "plan", "rewrite")),
        (_matmul(81, 64, 19), 3.0, False, ("decisions", "plan", "rewrite")),
        (_softmax(), 3.0, True, ("rewrite", "decisions", "plan")),
        (_softmax(), 3.0, False, ("rewrite", "plan", "decisions")),
        (_softmax(), 1.4, True, ("decisions", "plan", "rewrite")),
    ],
)
def test_the_task_and_its_headroom_order_the_lanes(
    task: Task, best: float, has_rules: bool, lanes: tuple[str, ...]
) -> None:
    choice = _choose(task, best=best, roof=1.0, has_rules=has_rules)
    assert choice.lanes == lanes
    assert choice.worth_asking


def test_odd_extents_are_named() -> None:
    assert "81x41" in _choose(_matmul(81, 41, 19)).reason


def test_a_function_that_nobody_knows_is_planned() -> None:
    choice = _choose(_task(Features("other")), has_sketch=False)
    assert choice.lanes == ("plan", "rewrite", "decisions")


def test_attention_is_rewritten() -> None:
    text = '"iter_type":2 ' * 4 + '"tirx.exp"'
    assert _choose(_matmul(128, 128, 64, text)).lanes[0] == "rewrite"
    assert _choose(_matmul(128, 128, 64, '"iter_type":2 "tirx.exp"')).lanes[0] == "decisions"


@pytest.mark.parametrize("call", ["tirx.call_extern", "tirx.tvm_call_packed"])
def test_a_call_to_foreign_code_is_kept(call: str) -> None:
    choice = _choose(_task(Features("other"), f'{{"type":"ir.Op","data":"{call}"}}'))
    assert choice.lanes == ()
    assert choice.reason.startswith("keep")
    assert not choice.worth_asking


def test_an_unknown_roof_leaves_the_question_open() -> None:
    choice = _choose(_matmul(512, 512, 512), best=1.0, has_rules=True)
    assert choice.worth_asking
    assert choice.reason == "a rule fits, distance to the roof unknown"


def test_the_untuned_time_stands_in_for_the_best() -> None:
    assert "100.00x the roof" in _choose(_matmul(512, 512, 512), roof=1.0).reason


def test_a_lane_that_leads_goes_first() -> None:
    trials = [_trial(DECISIONS, 3.0), _trial(PLAN, 2.0), _trial(REWRITE, math.inf)]
    choice = _choose(_matmul(512, 512, 512), best=2.0, roof=1.0, trials=trials, has_rules=True)
    assert choice.lanes[0] == "plan"
    assert choice.reason == "the best so far is a plan, 2.00x the roof"


def test_a_lead_within_noise_is_none() -> None:
    trials = [_trial(DECISIONS, 2.02), _trial(PLAN, 2.0)]
    choice = _choose(_matmul(512, 512, 512), best=2.0, roof=1.0, trials=trials)
    assert choice.lanes[0] == "decisions"


def test_a_lane_that_only_fails_goes_last() -> None:
    trials = [_trial(REWRITE, math.inf)] * 3
    choice = _choose(_softmax(), best=3.0, roof=1.0, trials=trials)
    assert choice.lanes == ("plan", "decisions", "rewrite")
    assert choice.reason.startswith("3 rewrites failed")


def test_two_failures_are_no_verdict() -> None:
    trials = [_trial(REWRITE, math.inf)] * 2
    assert _choose(_softmax(), best=3.0, roof=1.0, trials=trials).lanes[0] == "rewrite"


def test_decisions_that_stopped_helping_give_way_to_plans() -> None:
    trials = [_trial(DECISIONS, secs) for secs in (9.0, 5.0, 4.0, 3.0, 3.0, 3.1, 3.2, 3.0)]
    choice = _choose(_matmul(512, 512, 512), best=3.0, roof=1.0, trials=trials, has_rules=True)
    assert choice.lanes[0] == "plan"
    falling = [_trial(DECISIONS, float(secs)) for secs in (9, 8, 7, 6, 5, 4, 3, 2)]
    choice = _choose(_matmul(512, 512, 512), best=2.0, roof=1.0, trials=falling, has_rules=True)
    assert choice.lanes[0] == "decisions"


def _lesson(op_class: str, space: str, supports: tuple[str, ...]) -> Lesson:
    text = f"{op_class}: {space} is 1.80x the best other space over 4 tasks"
    return Lesson(op_class, MACHINE.key, space, text, supports, ())


@pytest.mark.parametrize(
    ("lesson", "lane"),
    [
        (_lesson("matmul", "rewrite", ("a",)), "rewrite"),
        (_lesson("matmul", "rule:matmul_x86", ("a",)), "decisions"),
        (_lesson("softmax", "rewrite", ("a",)), "decisions"),
        (_lesson("matmul", "rewrite", ()), "decisions"),
        ("matmul: plan is 1.10x the best other space over 2 tasks", "plan"),
        ("tiles of 6x16 do well", "decisions"),
    ],
)
def test_a_lesson_counts_where_it_is_about_the_task(lesson: Lesson | str, lane: str) -> None:
    assert _choose(_matmul(512, 512, 512), lessons=[lesson]).lanes[0] == lane
