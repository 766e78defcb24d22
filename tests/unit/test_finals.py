# SPDX-License-Identifier: Apache-2.0
"""The fastest are measured again, until the fastest is one that was."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kope_tvm.candidate import Candidate
from kope_tvm.context import Trial
from kope_tvm.finals import MAX_FINALS, NUM_FINALISTS, NUM_TURNS, finals, remeasured
from kope_tvm.outcome import Measurement, Verdict, accept, refuse
from kope_tvm.proposal import Decisions, Proposal


class _Clock:
    """Gives each state the time it really has."""

    def __init__(self, secs: dict[str, float]) -> None:
        self.secs = secs
        self.asked: list[str] = []

    def measure(self, candidates: Sequence[Candidate]) -> Iterator[tuple[int, Measurement]]:
        for index, candidate in enumerate(candidates):
            self.asked.append(candidate.state)
            secs = self.secs.get(candidate.state)
            yield index, Measurement((secs,)) if secs else Measurement(code="E_CRASH", error="died")


def _trial(state: str, secs: float) -> Trial:
    return Trial(state, Decisions("s", state), accept("device"), Measurement((secs,)))


def _apply(proposal: Proposal) -> Candidate | Verdict:
    assert isinstance(proposal, Decisions)
    if proposal.trace == "gone":
        return refuse("apply", "E_REPLAY", "no such loop")
    return Candidate(proposal, proposal.trace, sch=None)


def _held(trials: Sequence[Trial], clock: _Clock) -> dict[str, tuple[float, ...]]:
    return {trial.state: secs for trial, secs in finals(trials, _apply, clock)}


def test_close_trials_are_measured_in_turns_and_keep_their_first_time() -> None:
    clock = _Clock({"a": 1.2, "b": 1.1})
    assert _held([_trial("a", 1.0), _trial("b", 1.1), _trial("far", 9.0)], clock) == {
        "a": (1.0, 1.2, 1.2),
        "b": (1.1, 1.1, 1.1),
    }
    assert clock.asked == ["a", "b"] * NUM_TURNS


def test_a_clear_winner_needs_no_finals() -> None:
    clock = _Clock({})
    assert _held([_trial("a", 1.0), _trial("b", 2.0)], clock) == {}
    assert _held([], clock) == {}
    assert clock.asked == []


def test_a_finalist_that_falls_behind_makes_room_for_the_next() -> None:
    trials = [_trial(state, 1.0 + n / 100) for n, state in enumerate("abcd")]
    clock = _Clock({"a": 2.0, "b": 2.0, "c": 2.0, "d": 1.05})
    assert set(_held(trials, clock)) == {"a", "b", "c", "d"}
    assert len(clock.asked) == 4 * NUM_TURNS


def test_the_finals_end() -> None:
    states = [chr(ord("a") + n) for n in range(20)]
    trials = [_trial(state, 1.0 + n / 1000) for n, state in enumerate(states)]
    clock = _Clock(dict.fromkeys(states, 5.0))
    assert len(_held(trials, clock)) <= MAX_FINALS * NUM_FINALISTS


def test_what_fails_or_no_longer_replays_keeps_its_first_time() -> None:
    trials = [_trial("gone", 1.0), _trial("dies", 1.0), _trial("a", 1.1)]
    assert _held(trials, _Clock({"a": 1.1})) == {"a": (1.1, 1.1, 1.1)}


def test_a_remeasured_trial_has_the_median_of_all_turns() -> None:
    assert remeasured(_trial("a", 1.0), (1.0, 3.0, 3.0)).secs == 3.0
