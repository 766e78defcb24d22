# SPDX-License-Identifier: Apache-2.0
"""Near misses get two turns, unless the same failure returns."""

from __future__ import annotations

import pytest

from kope_tvm.context import Trial
from kope_tvm.debugger import MAX_TURNS, near_misses, signature_of
from kope_tvm.outcome import Measurement, Verdict, accept, refuse
from kope_tvm.proposal import Origin, Plan, Repair


def failed(state: str, code: str, reason: str, repair: Repair | None = None) -> Trial:
    measurement = Measurement(stage="check", code=code, error=reason)
    return Trial(state, Plan((), Origin("chat", repair=repair)), accept("device"), measurement)


def refused(state: str, verdict: Verdict, repair: Repair | None = None) -> Trial:
    return Trial(state, Plan((), Origin("chat", repair=repair)), verdict)


def test_a_failure_is_mended_once_and_then_once_more() -> None:
    first = failed("a", "E_NUMERICS", "max_rel 3.1e-2 at [63, 12] of C")
    (miss,) = near_misses([first], "chat")
    assert miss.repair == Repair("a", 1, "E_NUMERICS max_rel # at [#, #] of C")
    second = failed("b", "E_BUILD", "cannot allocate 12 registers", miss.repair)
    (again,) = near_misses([first, second], "chat")
    assert again.repair.turn == MAX_TURNS
    third = failed("c", "E_CRASH", "signal 11", again.repair)
    assert list(near_misses([first, second, third], "chat")) == []


def test_the_same_failure_again_ends_it() -> None:
    first = failed("a", "E_NUMERICS", "max_rel 3.1e-2 at [63, 12] of C")
    (miss,) = near_misses([first], "chat")
    second = failed("b", "E_NUMERICS", "max_rel 8.0e-1 at [0, 0] of C", miss.repair)
    assert list(near_misses([first, second], "chat")) == []


def test_another_step_that_fails_alike_is_another_failure() -> None:
    reason = "split(loop='k'): factors multiply to 28, the loop extent is 32"
    third, fifth = (refused(s, refuse("plan", "E_STEP", f"step {s} {reason}")) for s in "35")
    assert signature_of(third) == (
        "E_STEP step 3 split(loop='k'): factors multiply to #, the loop extent is #"
    )
    assert signature_of(third) != signature_of(fifth)


@pytest.mark.parametrize(
    "trial",
    [
        failed("a", "E_DEVICE", "the board is gone"),
        refused("a", refuse("round", "E_REPEAT", "the same program as b")),
        refused("a", refuse("calls", "E_CALL", "calls system", suspicious=True)),
        Trial("a", Plan((), Origin("chat")), accept("device"), Measurement((1.0,))),
        Trial("a", Plan((), Origin("sketch")), refuse("apply", "E_REPLAY", "split: no")),
    ],
    ids=["device", "repeat", "cheat", "right", "another's"],
)
def test_what_is_no_near_miss(trial: Trial) -> None:
    assert list(near_misses([trial], "chat")) == []
