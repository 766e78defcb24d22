# SPDX-License-Identifier: Apache-2.0
"""Which candidates are proved, and when."""

from __future__ import annotations

import math

import pytest

from kope_tvm.measure.asked import PROMPT_SECS, Asked
from kope_tvm.measure.references import Known
from kope_tvm.outcome import Measurement

SLOW, SLOWER = 2 * PROMPT_SECS, 3 * PROMPT_SECS
QUICK = PROMPT_SECS / 2


def right(secs: float, *, is_proven: bool = False) -> Measurement:
    return Measurement((secs,), is_proven=is_proven)


@pytest.fixture
def asked() -> Asked:
    return Asked(Known(b"", Measurement((1.0,))), None, None, 0.0)


def test_what_beats_the_best_is_proved_at_once_where_its_calls_are_quick(asked: Asked) -> None:
    assert (asked.prove_below, asked.best_secs) == (PROMPT_SECS, math.inf)
    asked.note(right(QUICK, is_proven=True))
    assert (asked.prove_below, asked.best_secs) == (QUICK, QUICK)
    asked.note(right(QUICK / 2))
    assert asked.best_secs == QUICK


def test_what_is_slow_waits_and_only_the_best_of_it_is_proved(asked: Asked) -> None:
    assert asked.leaves_open(right(SLOWER))
    assert asked.leaves_open(right(SLOW))
    assert not asked.leaves_open(right(SLOWER))
    asked.end_batch()
    assert asked.must_prove(right(SLOW))
    asked.note(right(SLOW, is_proven=True))
    assert not asked.must_prove(right(SLOWER))


def test_what_is_slow_is_not_proved_once_a_quick_one_is_the_best(asked: Asked) -> None:
    assert asked.leaves_open(right(SLOW))
    asked.note(right(QUICK, is_proven=True))
    asked.end_batch()
    assert not asked.must_prove(right(SLOW))


def test_where_the_best_of_the_slow_is_wrong_the_next_is_proved(asked: Asked) -> None:
    assert asked.leaves_open(right(SLOWER))
    assert asked.leaves_open(right(SLOW))
    asked.end_batch()
    asked.note(Measurement(error="wrong", code="E_NUMERICS"))
    assert asked.must_prove(right(SLOWER))


def test_ten_times_faster_is_in_doubt_and_is_proved_again_though_it_was(asked: Asked) -> None:
    assert not asked.leaves_open(right(QUICK, is_proven=True))
    asked.note(right(QUICK, is_proven=True))
    fast, faster = right(QUICK / 11, is_proven=True), right(QUICK / 12, is_proven=True)
    assert asked.leaves_open(fast)
    assert asked.leaves_open(faster)
    assert asked.prove_below == QUICK / 12
    asked.end_batch()
    asked.note(faster)
    assert asked.must_prove(fast)
    assert not asked.must_prove(right(QUICK / 11))


def test_doubt_counts_what_was_never_proved(asked: Asked) -> None:
    asked.note(right(SLOW))
    assert asked.leaves_open(right(SLOW / 11, is_proven=True))


def test_who_asks_for_a_proof_gets_it_at_once() -> None:
    known = Known(b"", Measurement((1.0,)), best_secs=QUICK)
    asked = Asked(known, None, math.inf, 0.0)
    assert (asked.prove_below, asked.best_secs) == (math.inf, math.inf)
    assert not asked.leaves_open(right(SLOW, is_proven=True))
    unchecked = Asked(None, None, None, 0.0)
    assert unchecked.prove_below == math.inf
    assert not unchecked.leaves_open(right(SLOW))
