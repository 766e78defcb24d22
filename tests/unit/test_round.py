# SPDX-License-Identifier: Apache-2.0
"""The path of a round, with stand-ins for what needs TVM."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from kope_tvm.candidate import Candidate
from kope_tvm.context import Context
from kope_tvm.memory.experience import Experience
from kope_tvm.outcome import Measurement, Verdict, accept, refuse
from kope_tvm.panel import Panel
from kope_tvm.proposal import Decisions, Origin, Proposal
from kope_tvm.round import Run, Tuning
from kope_tvm.target import TargetSpec
from kope_tvm.task import Task


class _Lines:
    """Proposes the given traces in order."""

    def __init__(self, traces: Sequence[str]) -> None:
        self.traces = list(traces)
        self.seen: list[Context] = []

    def propose(self, context: Context) -> Sequence[Proposal]:
        self.seen.append(context)
        now, self.traces = self.traces[: context.num_wanted], self.traces[context.num_wanted :]
        return [Decisions("s", trace, Origin("lines")) for trace in now]


class _RefusesOdd:
    cost = 0

    def check(self, candidate: Candidate, task: Task) -> Verdict:
        if "odd" in candidate.state:
            return refuse("odd", "E_ODD", f"{candidate.state} in {task.name}")
        return accept("odd")


@dataclass
class _Clock:
    secs: dict[str, float]
    measured: list[str] = field(default_factory=list)

    def measure(self, candidates: Sequence[Candidate]) -> Iterator[tuple[int, Measurement]]:
        for index, candidate in enumerate(candidates):
            self.measured.append(candidate.state)
            yield index, Measurement((self.secs[candidate.state],))


def _apply(proposal: Proposal) -> Candidate | Verdict:
    assert isinstance(proposal, Decisions)
    if proposal.trace == "illegal":
        return refuse("apply", "E_REPLAY", "no such loop")
    return Candidate(proposal, proposal.trace, sch=None)


def _tuning(traces: Sequence[str], kept: list[Experience]) -> tuple[Tuning, _Lines]:
    lines = _Lines(traces)
    task = Task("t", "key", "", TargetSpec("host", {"kind": "llvm"}))

    def record(experience: Experience, candidate: Candidate | None) -> None:
        kept.append(experience)

    panel = Panel({"lines": lines})
    return Tuning(task, Run("r", 7, "tvm"), panel, _apply, [_RefusesOdd()], _none, record), lines


def _none(task: Task) -> tuple[()]:
    return ()


def test_a_round_measures_what_the_gates_accept_and_records_everything() -> None:
    kept: list[Experience] = []
    tuning, _ = _tuning(["a", "illegal", "odd1", "b"], kept)
    clock = _Clock({"a": 2.0, "b": 1.0})
    trials = list(tuning.run_round(clock, num_wanted=4, trials_left=9))
    assert [trial.state for trial in trials] == ["a", "b"]
    assert tuning.best_secs == 1.0
    assert [(one.code, one.reason) for one in kept if one.code] == [
        ("E_REPLAY", "no such loop"),
        ("E_ODD", "odd1 in t"),
    ]
    assert [one.run_secs for one in kept if not one.code] == [(2.0,), (1.0,)]


def test_a_state_is_measured_once_whoever_proposes_it_again() -> None:
    tuning, _ = _tuning(["a", "a", "a", "b"], [])
    clock = _Clock({"a": 2.0, "b": 1.0})
    assert [one.state for one in tuning.run_round(clock, 2, 9)] == ["a", "b"]
    assert clock.measured == ["a", "b"]


def test_each_trial_is_on_record_before_the_next_is_measured() -> None:
    kept: list[Experience] = []
    tuning, _ = _tuning(["a", "b"], kept)
    stream = tuning.run_round(_Clock({"a": 2.0, "b": 1.0}), 2, 9)
    next(stream)
    assert [one.state for one in kept] == ["a"]


def test_refusals_reach_the_next_context() -> None:
    tuning, lines = _tuning(["odd1", "a", "b"], [])
    list(tuning.run_round(_Clock({"a": 2.0, "b": 1.0}), 2, 9))
    assert [trial.verdict.code for trial in lines.seen[-1].trials] == ["E_ODD"]
