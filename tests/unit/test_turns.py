# SPDX-License-Identifier: Apache-2.0
"""What a turn of a knob did elsewhere says whether to try it here."""

from __future__ import annotations

import math

import pytest

from kope_tvm.memory.transitions import Transition
from kope_tvm.space import Knob
from kope_tvm.turns import Turns

_UNROLL = Knob(16, "SampleCategorical", 1, (0, 16, 64))
_TILE = Knob(4, "SamplePerfectTile", (4, 8), (), 64)


def _transition(change: str, ratio: float, similarity: float = 1.0) -> Transition:
    return Transition(change, ratio, "", "", "matmul", similarity, "sketch", "decisions")


def test_a_turn_is_worth_its_log_ratio_and_back_it_costs_as_much() -> None:
    turns = Turns.learned([_transition("#16 16 -> 64", 1.5)])
    assert turns.worth("sketch", _UNROLL, 2) == pytest.approx(math.log(1.5))
    back = Knob(16, "SampleCategorical", 2, (0, 16, 64))
    assert turns.worth("sketch", back, 1) == pytest.approx(-math.log(1.5))


def test_what_was_undone_and_got_slower_is_worth_doing() -> None:
    turns = Turns.learned([_transition("undo #4 [2, 16] -> [4, 8]", 0.5)])
    assert turns.worth("sketch", _TILE, (2, 16)) == pytest.approx(math.log(2))


def test_of_one_turn_the_first_and_most_telling_counts() -> None:
    turns = Turns.learned([_transition("#16 16 -> 64", 2.0), _transition("#16 16 -> 64", 0.5)])
    assert turns.worth("sketch", _UNROLL, 2) == pytest.approx(math.log(2))


def test_a_failure_warns_and_a_stranger_counts_less() -> None:
    failed = Turns.learned([_transition("#16 16 -> 64", 0.0)])
    assert failed.worth("sketch", _UNROLL, 2) == pytest.approx(-math.log(2))
    other = Turns.learned([_transition("#16 16 -> 64", 2.0, similarity=0.5)])
    assert other.worth("sketch", _UNROLL, 2) == pytest.approx(math.log(2) / 2)


def test_other_spaces_knobs_and_longer_changes_say_nothing() -> None:
    turns = Turns.learned(
        [_transition("#16 16 -> 64, #4 [4, 8] -> [2, 16]", 2.0), _transition("first guess", 3.0)]
    )
    assert turns.worth("sketch", _UNROLL, 2) == 0.0
    known = Turns.learned([_transition("#16 16 -> 64", 2.0)])
    assert known.worth("rule:matmul_x86", _UNROLL, 2) == 0.0
    assert known.worth("sketch", _TILE, (2, 16)) == 0.0
