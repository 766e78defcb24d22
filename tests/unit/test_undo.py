# SPDX-License-Identifier: Apache-2.0
"""One decision at a time is taken back: to the first guess where it left it, else to untuned."""

from __future__ import annotations

import json

from kope_tvm.space import Knob, Space
from kope_tvm.undo import undone, untuned


def _space(tile: list[int], unroll: int, location: int) -> Space:
    instructions: list[list[object]] = [
        ["GetSBlock", [], ["C", "main"], ["b0"]],
        ["GetLoops", ["b0"], [], ["l1"]],
        ["SamplePerfectTile", ["l1"], [len(tile), 16], [f"v{i}" for i in range(len(tile))]],
        ["SampleCategorical", [], [[0, 16, 64], [0.3, 0.3, 0.4]], ["v9"]],
        ["SampleComputeLocation", ["b0"], [], ["l10"]],
    ]
    return Space("rule:x", json.dumps([instructions, [[2, tile], [3, unroll], [4, location]]]))


def _settings(space: Space, guess: Space | None = None) -> list[list[object]]:
    return [[knob.value for knob in child.knobs] for child in undone(space, guess)]


def test_untuned_is_one_loop_the_least_number_and_the_place_where_it_was() -> None:
    assert untuned(Knob(0, "SamplePerfectTile", (4, 2, 8))) == (64, 1, 1)
    assert untuned(Knob(0, "SampleCategorical", 1, (64, 16, 0))) == 2
    assert untuned(Knob(0, "SampleComputeLocation", 3)) == -1


def test_each_decision_is_taken_back_alone() -> None:
    assert _settings(_space([4, 8], 2, 1)) == [
        [(32, 1), 2, 1],
        [(4, 8), 0, 1],
        [(4, 8), 2, -1],
    ]


def test_what_left_the_first_guess_goes_back_to_it() -> None:
    guess = _space([8, 4], 1, 1)
    assert _settings(_space([4, 8], 2, 1), guess) == [
        [(8, 4), 2, 1],
        [(4, 8), 1, 1],
        [(4, 8), 2, -1],
    ]


def test_what_is_untuned_already_needs_no_trial() -> None:
    assert _settings(_space([32, 1], 0, -1)) == []


def test_the_guess_of_another_structure_says_nothing() -> None:
    other = Space("rule:x", json.dumps([[["GetSBlock", [], ["D"], ["b0"]]], []]))
    assert _settings(_space([4, 8], 0, -1), other) == [[(32, 1), 0, -1]]
