# SPDX-License-Identifier: Apache-2.0
"""The fastest are measured again, until the fastest is one that was."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from kope_tvm.candidate import Candidate
from kope_tvm.context import Trial
from kope_tvm.finals import (
    MAX_FINALS,
    MAX_TURNS,
    NUM_FINALISTS,
    NUM_TURNS,
    against,
    finals,
    remeasured,
)
from kope_tvm.outcome import Measurement, Verdict, accept, refuse
from kope_tvm.performance import GAMMA, compared
from kope_tvm.proposal import Decisions, Proposal


class _Clock:
    """Gives each state the time it really has; proves it unless it is wrong."""

    def __init__(self, secs: dict[str, float]) -> None:
        self.secs = secs
        self.asked: list[str] = []

    def measure(self, candidates: Sequence[Candidate]) -> Iterator[tuple[int, Measurement]]:
        for index, candidate in enumerate(candidates):
            self.asked.append(candidate.state)
            secs = self.secs.get(candidate.state)
            wrong = Measurement(stage="check", code="E_NUMERICS", error="max_rel 1 at [0]")
            yield index, Measurement((secs,), is_proven=True) if secs else wrong


def _trial(state: str, secs: float, *, is_proven: bool = False) -> Trial:
    measurement = Measurement((secs,), is_proven=is_proven)
    return Trial(state, Decisions("s", state), accept("device"), measurement)


def _apply(proposal: Proposal) -> Candidate | Verdict:
    assert isinstance(proposal, Decisions)
    if proposal.trace == "gone":
        return refuse("apply", "E_REPLAY", "no such loop")
    return Candidate(proposal, proposal.trace, sch=None)


def _held(trials: Sequence[Trial], clock: _Clock) -> dict[str, Measurement]:
    return {trial.state: measurement for trial, measurement in finals(trials, _apply, clock)}


def test_close_trials_are_measured_in_turns_and_keep_their_first_time() -> None:
    clock = _Clock({"a": 1.2, "b": 1.1})
    held = _held([_trial("a", 1.0), _trial("b", 1.1), _trial("far", 9.0)], clock)
    assert {state: one.run_secs for state, one in held.items()} == {
        "a": (1.0, 1.2, 1.2),
        "b": (1.1, 1.1, 1.1),
    }
    assert all(one.is_proven for one in held.values())
    assert clock.asked == ["a", "b"] * NUM_TURNS


def test_a_clear_winner_that_is_proved_needs_no_finals() -> None:
    clock = _Clock({})
    assert _held([_trial("a", 1.0, is_proven=True), _trial("b", 2.0)], clock) == {}
    assert _held([], clock) == {}
    assert clock.asked == []


def test_a_clear_winner_that_was_never_proved_is_proved() -> None:
    held = _held([_trial("a", 1.0), _trial("b", 2.0)], _Clock({"a": 1.0}))
    assert held == {"a": Measurement((1.0, 1.0, 1.0), is_proven=True)}


def test_who_is_wrong_in_the_finals_wins_nothing_and_makes_room() -> None:
    wrong = _trial("wrong", 1.0)
    held = _held([wrong, _trial("a", 2.0)], _Clock({"a": 2.0}))
    assert held["wrong"].code == "E_NUMERICS"
    assert held["a"].is_proven
    assert remeasured(wrong, held["wrong"]).secs == float("inf")


def test_a_finalist_that_falls_behind_makes_room_for_the_next() -> None:
    trials = [_trial(state, 1.0 + n / 100) for n, state in enumerate("abcd")]
    clock = _Clock({"a": 2.0, "b": 2.0, "c": 2.0, "d": 1.05})
    assert set(_held(trials, clock)) == {"a", "b", "c", "d"}
    assert len(clock.asked) == 4 * NUM_TURNS


def test_the_finals_of_proved_trials_end() -> None:
    states = [chr(ord("a") + n) for n in range(20)]
    trials = [_trial(state, 1.0 + n / 1000, is_proven=True) for n, state in enumerate(states)]
    clock = _Clock(dict.fromkeys(states, 5.0))
    assert len(_held(trials, clock)) <= MAX_FINALS * NUM_FINALISTS


def test_what_no_longer_replays_wins_only_if_it_was_proved() -> None:
    clock = _Clock({"a": 1.1})
    held = _held([_trial("gone", 1.0), _trial("a", 1.1)], clock)
    assert held["gone"].code == "E_REPLAY"
    assert held["a"].run_secs == (1.1, 1.1, 1.1)
    kept = _held([_trial("gone", 1.0, is_proven=True), _trial("a", 1.1)], clock)
    assert set(kept) == {"a"}


def test_a_remeasured_trial_has_the_median_of_all_turns() -> None:
    assert remeasured(_trial("a", 1.0), Measurement((1.0, 3.0, 3.0))).secs == 3.0


def test_a_challenger_and_an_incumbent_take_turns() -> None:
    clock = _Clock({"new": 1.0, "old": 1.02})
    new, old = (Candidate(Decisions("s", name), name, sch=None) for name in ("new", "old"))
    found = compared(*against(new, old, clock, clock))
    assert clock.asked == ["new", "old"] * NUM_TURNS
    assert (found.correct, found.suspicious, found.faster, found.accepted) == (
        True,
        False,
        False,
        False,
    )
    assert found.gain == pytest.approx(1.02)
    assert found.needed == 1.03


def test_a_gain_that_no_noise_explains_takes_one_turn() -> None:
    clock = _Clock({"new": 1.0, "old": 3.5})
    new, old = (Candidate(Decisions("s", name), name, sch=None) for name in ("new", "old"))
    found = compared(*against(new, old, clock, clock))
    assert clock.asked == ["new", "old"]
    assert (found.accepted, found.gain) == (True, 3.5)


class _Noisy(_Clock):
    """Slow in the second turn, as a neighbour makes it."""

    def measure(self, candidates: Sequence[Candidate]) -> Iterator[tuple[int, Measurement]]:
        for index, measurement in super().measure(candidates):
            factor = 2.0 if len(self.asked) == 2 else 1.0
            yield index, Measurement((measurement.secs * factor,), is_proven=True)


def test_more_turns_are_taken_where_the_gain_is_less_than_the_noise() -> None:
    new, old = (Candidate(Decisions("s", name), name, sch=None) for name in ("new", "old"))
    device, plain = _Noisy({"new": 1.0}), _Clock({"old": 1.8})
    found = compared(*against(new, old, device, plain))
    assert (found.accepted, found.gain, found.needed) == (True, 1.8, GAMMA)
    assert NUM_TURNS < len(device.asked) == len(plain.asked) < MAX_TURNS


class _Disturbed(_Clock):
    """On one core of two for so many turns: what takes both is slow, what takes one is not."""

    def __init__(self, secs: dict[str, float], turns: int) -> None:
        super().__init__(secs)
        self.turns = turns

    def measure(self, candidates: Sequence[Candidate]) -> Iterator[tuple[int, Measurement]]:
        for index, measurement in super().measure(candidates):
            factor = 3.0 if len(self.asked) <= self.turns else 1.0
            yield index, Measurement((measurement.secs * factor,), is_proven=True)


@pytest.mark.parametrize(("known_secs", "accepted"), [(1.0, True), (3.0, False)])
def test_a_challenger_far_from_its_own_time_gets_more_turns_before_it_is_behind(
    known_secs: float, accepted: bool
) -> None:
    new, old = (Candidate(Decisions("s", name), name, sch=None) for name in ("new", "old"))
    device, plain = _Disturbed({"new": 1.0}, turns=2), _Clock({"old": 2.0})
    found = compared(*against(new, old, device, plain, known_secs))
    assert found.accepted == accepted
    assert len(device.asked) == (8 if accepted else NUM_TURNS)


def test_a_challenger_that_is_wrong_beside_the_incumbent_costs_no_more_turns() -> None:
    clock = _Clock({"old": 1.0})
    new, old = (Candidate(Decisions("s", name), name, sch=None) for name in ("new", "old"))
    found = compared(*against(new, old, clock, clock))
    assert clock.asked == ["new"]
    assert (found.correct, found.gain, found.code) == (False, 0.0, "E_NUMERICS")
    assert found.reason == "max_rel 1 at [0]"
