# SPDX-License-Identifier: Apache-2.0
"""A design space as data: knobs, neighbours, and decisions moved to another shape."""

from __future__ import annotations

import json

from kope_tvm.space import Knob, Space, difference, neighbours


def _space(tile: list[int], categories: list[int], chosen: int, *, postproc: bool = False) -> Space:
    instructions: list[list[object]] = [
        ["GetSBlock", [], ["C", "main"], ["b0"]],
        ["GetLoops", ["b0"], [], ["l1"]],
        ["SamplePerfectTile", ["l1"], [len(tile), 16], [f"v{i}" for i in range(len(tile))]],
        ["SampleCategorical", [], [categories, [0.5] * len(categories)], ["v9"]],
    ]
    if postproc:
        instructions += [["EnterPostproc", [], [], []], ["Parallel", ["l1"], [], []]]
    return Space("rule:x", json.dumps([instructions, [[2, tile], [3, chosen]]]))


def test_knobs_are_the_decisions_in_trace_order() -> None:
    tile, category = _space([4, 8], [0, 16, 64], 1).knobs
    assert (tile.kind, tile.value, tile.max_innermost) == ("SamplePerfectTile", (4, 8), 16)
    assert (category.kind, category.value, category.shown) == ("SampleCategorical", 1, "16")


def test_turning_a_knob_cuts_the_postprocessing_and_keeps_the_rest() -> None:
    space = _space([4, 8], [0, 16], 0, postproc=True)
    turned = space.turned({2: (2, 16)})
    instructions, decisions = json.loads(turned.trace)
    assert decisions == [[2, [2, 16]], [3, 0]]
    assert [one[0] for one in instructions][-1] == "SampleCategorical"
    assert turned.structure == space.structure


def test_difference_names_what_changed() -> None:
    space = _space([4, 8], [0, 16], 0)
    assert difference(space, space.turned({2: (8, 4), 3: 1})) == "#2 [4, 8] -> [8, 4], #3 0 -> 16"
    assert difference(space, space) == "same values"


def test_neighbours_of_a_tile_move_one_prime_factor() -> None:
    assert set(neighbours(Knob(0, "SamplePerfectTile", (2, 3), (), 64))) == {(1, 6), (6, 1)}


def test_neighbours_of_a_tile_keep_the_innermost_limit() -> None:
    assert neighbours(Knob(0, "SamplePerfectTile", (2, 8), (), 8)) == ((4, 4),)


def test_neighbours_of_a_categorical_stay_inside() -> None:
    assert neighbours(Knob(0, "SampleCategorical", 0, (1, 2))) == (1,)
