# SPDX-License-Identifier: Apache-2.0
"""What a run says of each task: how much faster, and by what."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kope_tvm.context import Trial
from kope_tvm.outcome import Measurement, accept, refuse
from kope_tvm.panel import Panel
from kope_tvm.performance import Comparison
from kope_tvm.proposal import Decisions, Origin, Plan, Proposal, Rewrite
from kope_tvm.report import task_report
from kope_tvm.round import Run, Tuning
from kope_tvm.target import TargetSpec
from kope_tvm.task import Task

TASK = Task("softmax", "c0ffee", "{}", TargetSpec("host", {"kind": "llvm"}))


def _tuning(*trials: Trial) -> Tuning:
    return Tuning(
        TASK,
        Run("r", 1, "tvm"),
        Panel({}),
        lambda proposal: refuse("apply", "E_REPLAY", "never asked"),
        (),
        lambda task: (),
        lambda experience, candidate: None,
        baseline_secs=3.0,
        trials=list(trials),
    )


def _measured(proposal: Proposal, *run_secs: float) -> Trial:
    return Trial("s", proposal, accept("device"), Measurement(run_secs))


@pytest.mark.parametrize(
    ("proposal", "shown"),
    [
        (Decisions("rule:softmax_x86", "[]"), "rule:softmax_x86"),
        (Plan(()), "plan"),
        (Rewrite("def main(): ..."), "rewrite"),
        (Rewrite("def main(): ...", Plan(())), "rewrite:plan"),
        (Rewrite("def main(): ...", Decisions("sketch", "[]")), "rewrite:sketch"),
        (Rewrite("def main(): ...", Decisions("", "[]")), "rewrite"),
    ],
)
def test_the_best_is_shown_by_its_space_or_its_lane(proposal: Proposal, shown: str) -> None:
    slower = _measured(Decisions("sketch", "[]"), 2.0)
    report = task_report(_tuning(slower, _measured(proposal, 1.0)))
    assert report.best_space == shown


def test_what_was_not_faster_beside_the_untuned_function_is_no_gain() -> None:
    tuning = _tuning(_measured(Plan(()), 1.0))
    right = Comparison(correct=True, suspicious=False, faster=True, gain=2.5, needed=1.1)
    report = task_report(tuning, right)
    assert (report.correct, report.suspicious, report.faster) == (True, False, True)
    assert (report.accepted, report.speedup, report.needed) == (True, 2.5, 1.1)
    slow = task_report(tuning, replace(right, faster=False, gain=1.02))
    assert (slow.correct, slow.faster, slow.gain, slow.speedup) == (True, False, 1.02, 1.0)
    assert task_report(tuning).speedup == 1.0


def test_what_was_refused_and_what_failed_are_counted_apart() -> None:
    refused = Trial("s", Plan(()), refuse("plan", "E_STEP", "step 1: no such loop"))
    failed = _measured(Plan((), Origin("chat")))
    report = task_report(_tuning(refused, failed))
    assert (report.trials, report.refused, report.failed) == (1, 1, 1)
    assert (report.best_space, report.best_proposer, report.speedup) == ("", "", 1.0)


def test_refusals_are_counted_by_code_wherever_they_came_from() -> None:
    step = refuse("plan", "E_STEP", "step 1: no such loop")
    wrong = Measurement(stage="check", code="E_NUMERICS", error="max_rel 1.0e+00 at [0]")
    trials = [Trial(name, Plan(()), step) for name in "ab"]
    trials.append(Trial("c", Plan(()), accept("device"), wrong))
    report = task_report(_tuning(*trials, _measured(Plan(()), 1.0)))
    assert report.refusals == (("E_STEP", 2), ("E_NUMERICS", 1))
