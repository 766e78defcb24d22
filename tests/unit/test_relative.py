# SPDX-License-Identifier: Apache-2.0
"""Decisions in units of one machine become the nearest legal ones of another machine or shape."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from kope_tvm.proposal import Plan, Step
from kope_tvm.relative.carried import Place, carried, relative_of
from kope_tvm.relative.plans import relative_plan, resized_plan
from kope_tvm.relative.roles import PLAIN, REST, TASKS, VECTOR, roles_of, wiring
from kope_tvm.relative.wording import told
from kope_tvm.relative.yardstick import Yardstick
from kope_tvm.schedules.analysis import Access, Block, Index, Iter
from kope_tvm.space import Space
from kope_tvm.target import Facts

_RVV256 = Yardstick.of(Facts("rvv", 256, 32, 8, 32768, 524288), ("float32", "float32"))
_RVV1024 = Yardstick.of(Facts("rvv", 1024, 32, 8, 32768, 524288), ("float32", "float32"))
_AVX512 = Yardstick.of(Facts("avx512", 512, 32, 16, 32768, 1 << 20), ("float32", "float32"))


def _tiled(tile: Sequence[int], *, marks: str = "Vectorize", name: str = "rule:x_rvv") -> Space:
    """One loop in three, the innermost one marked, and unrolled by a number of its own."""
    instructions: list[list[object]] = [
        ["GetSBlock", [], ["C", "main"], ["b0"]],
        ["GetLoops", ["b0"], [], ["l1"]],
        ["SamplePerfectTile", ["l1"], [3, 64], ["v2", "v3", "v4"]],
        ["Split", ["l1", "v2", "v3", "v4"], [True, False], ["l5", "l6", "l7"]],
        [marks, ["l7"], [], []],
        ["SampleCategorical", [], [[0, 16, 64], [0.3, 0.3, 0.4]], ["v8"]],
        ["Annotate", ["b0", "v8"], ["meta_schedule.unroll_explicit"], []],
    ]
    return Space(name, json.dumps([instructions, [[2, list(tile)], [5, 1]]]))


def _stock(rows: Sequence[int], cols: Sequence[int], depth: Sequence[int]) -> Space:
    """A matrix product as stock multi-level tiling has it."""
    loops = (("l2", 4), ("l3", 4), ("l4", 2))
    instructions: list[list[object]] = [
        ["GetSBlock", [], ["C", "main"], ["b0"]],
        ["GetSBlock", [], ["root", "main"], ["b1"]],
        ["Annotate", ["b0", '"SSRSRS"'], ["meta_schedule.tiling_structure"], []],
        ["GetLoops", ["b0"], [], ["l2", "l3", "l4"]],
    ]
    made: list[list[str]] = []
    for at, (loop, count) in enumerate(loops):
        numbers = [f"v{10 * at + place + 50}" for place in range(count)]
        made.append([f"l{10 * at + place + 50}" for place in range(count)])
        instructions.append(["SamplePerfectTile", [loop], [count, 64], numbers])
        instructions.append(["Split", [loop, *numbers], [True, False], made[-1]])
    i, j, k = made
    nest = [i[0], j[0], i[1], j[1], k[0], i[2], j[2], k[1], i[3], j[3]]
    instructions += [
        ["Reorder", nest, [], []],
        ["Annotate", ["b1", 32], ["meta_schedule.parallel"], []],
        ["Annotate", ["b1", 64], ["meta_schedule.vectorize"], []],
    ]
    decisions = [[4, list(rows)], [6, list(cols)], [8, list(depth)]]
    return Space("sketch", json.dumps([instructions, decisions]))


def _product(m: int, n: int, k: int) -> Block:
    def access(buffer: str, shape: tuple[int, int], *axes: int) -> Access:
        return Access(
            buffer,
            shape,
            "float32",
            tuple(Index(tuple(int(i == a) for i in range(3)), 0) for a in axes),
        )

    iters = (Iter("i", "S", m), Iter("j", "S", n), Iter("k", "R", k))
    loads = (access("A", (m, k), 0, 2), access("B", (k, n), 2, 1))
    return Block("C", iters, loads, (access("C", (m, n), 0, 1),), True, None)


def test_a_vector_is_as_many_elements_as_the_output_has_in_a_register() -> None:
    facts = Facts("avx512", 512, 32, 4)
    lanes = {dtype: Yardstick.of(facts, ("int8", dtype)).lanes for dtype in ("float32", "int8")}
    assert lanes == {"float32": 16, "int8": 64}
    assert Yardstick.of(Facts("cuda"), ("float32",)).lanes == 0


def test_the_role_of_a_factor_is_what_becomes_of_its_loop() -> None:
    assert roles_of(_tiled([4, 4, 16])).of_knob == {2: (REST, PLAIN, VECTOR), 5: (PLAIN,)}
    assert roles_of(_tiled([4, 4, 16], marks="Parallel")).of_knob[2] == (REST, PLAIN, TASKS)
    assert roles_of(_tiled([4, 4, 16], marks="Unroll")).of_knob[2] == (REST, PLAIN, PLAIN)


def test_a_loop_that_stock_postprocessing_vectorises_is_seen_before_it() -> None:
    roles = roles_of(_stock([1, 8, 8, 8], [1, 4, 4, 32], [64, 8]))
    assert roles.of_knob[6] == (REST, PLAIN, PLAIN, VECTOR)
    assert roles.of_knob[4] == (REST, PLAIN, PLAIN, PLAIN)
    assert roles.tilings[0].tiles == {0: 4, 1: 6, 2: 8}


@pytest.mark.parametrize(
    ("made_on", "here", "tile"),
    [
        (_RVV256, _RVV256, (8, 4, 16)),
        (_RVV256, _RVV1024, (2, 4, 64)),
        (_RVV256, _AVX512, (4, 4, 32)),
        (_RVV1024, _RVV256, (32, 4, 4)),
    ],
)
def test_a_tile_of_two_vectors_is_two_vectors_elsewhere(
    made_on: Yardstick, here: Yardstick, tile: tuple[int, ...]
) -> None:
    found = carried(_tiled([8, 4, 16]), made_on, _tiled([512, 1, 1]), Place(here))
    assert found is not None
    assert [knob.value for knob in found.space.knobs] == [tile, 1]


def test_it_is_said_in_vectors_and_read_again() -> None:
    relative = relative_of(_tiled([8, 4, 16]), Place(_RVV256))
    assert relative.told() == "[rest, 4, 2 vlen], 16"
    assert told(relative.text()) == relative.told()
    assert told("something else") == "something else"


def test_two_machines_that_did_the_same_say_the_same() -> None:
    assert relative_of(_tiled([8, 4, 16]), Place(_RVV256)) == relative_of(
        _tiled([2, 4, 64]), Place(_RVV1024)
    )


def test_of_an_extent_that_no_vector_divides_the_nearest_divisor_is_taken() -> None:
    found = carried(_tiled([8, 4, 16]), _RVV256, _tiled([100, 1, 1]), Place(_RVV256))
    assert found is not None
    # Of 100 the divisor nearest to 16 in ratio is 20, of the 5 left over the one nearest to 4 is 5.
    assert found.space.knobs[0].value == (1, 5, 20)


def test_a_machine_without_vectors_keeps_the_numbers() -> None:
    found = carried(_tiled([8, 4, 16]), Yardstick(0), _tiled([512, 1, 1]), Place(Yardstick(0)))
    assert found is not None
    assert found.space.knobs[0].value == (8, 4, 16)
    assert found.relative.told() == "[rest, 4, 16], 16"


def test_knobs_that_do_not_correspond_are_not_carried() -> None:
    other = _stock([1, 1, 1, 64], [1, 1, 1, 64], [64, 1])
    assert carried(_tiled([8, 4, 16]), _RVV256, other, Place(_RVV256)) is None


def test_the_wiring_tells_structures_apart_and_not_numbers() -> None:
    assert wiring(_tiled([8, 4, 16])) == wiring(_tiled([1, 1, 3]))
    text = _tiled([8, 4, 16]).trace
    assert wiring(Space("sketch", text.replace('["l7"], [], []', '["l6"], [], []'))) != wiring(
        Space("sketch", text)
    )


def test_tiles_fill_the_same_share_of_a_larger_cache() -> None:
    small, large = Yardstick(8, 1, 32768, 262144), Yardstick(8, 1, 32768, 1 << 20)
    source = _stock([8, 8, 8, 1], [8, 8, 1, 8], [64, 8])
    block = _product(512, 512, 512)
    relative = relative_of(source, Place(small, {"C": block}))
    # Inside the outer reduction 8 x 8 of each operand; inside the outermost level 64 x 64 x 512.
    fills = dict(relative.fills)
    assert fills["l1"] == pytest.approx(3 * 64 * 4 / 32768, rel=0.01)
    assert fills["l2"] == pytest.approx((2 * 64 * 512 + 64 * 64) * 4 / 262144, rel=0.01)
    found = carried(source, small, source, Place(large, {"C": block}))
    assert found is not None
    rows, cols, depth = (knob.value for knob in found.space.knobs)
    assert isinstance(rows, tuple)
    assert isinstance(cols, tuple)
    assert depth == (64, 8)
    # Four times the cache takes twice the rows and twice the columns, or one of them more often.
    inside = (rows[1] * rows[2] * rows[3], cols[1] * cols[2] * cols[3])
    assert 2 * 64 * 64 <= inside[0] * inside[1] <= 8 * 64 * 64
    assert (rows[2:], cols[2:]) == ((8, 1), (1, 8))


def test_more_cores_get_at_least_a_task_each() -> None:
    few, many = Yardstick(8, 4), Yardstick(8, 64)
    source = _stock([4, 16, 8, 1], [2, 32, 1, 8], [64, 8])
    found = carried(source, few, source, Place(many, {"C": _product(512, 512, 512)}))
    assert found is not None
    rows, cols, _ = (knob.value for knob in found.space.knobs)
    assert isinstance(rows, tuple)
    assert isinstance(cols, tuple)
    assert 32 <= rows[0] * cols[0] <= 128


def test_the_same_machine_keeps_what_works_whatever_the_caches() -> None:
    source = _stock([8, 8, 8, 1], [8, 8, 1, 8], [64, 8])
    wide = _stock([1024, 1, 1, 1], [512, 1, 1, 1], [512, 1])
    found = carried(source, _RVV256, wide, Place(_RVV256, {"C": _product(1024, 512, 512)}))
    assert found is not None
    assert [knob.value for knob in found.space.knobs] == [(16, 8, 8, 1), (8, 8, 1, 8), (64, 8)]


def test_a_plan_is_resized_where_its_loops_are_vectorised() -> None:
    plan = Plan(
        (
            Step("split", {"block": "C", "loop": "j", "factors": [-1, 16], "into": ["jo", "ji"]}),
            Step("split", {"block": "C", "loop": "i", "factors": [16, 8]}),
            Step("vectorize", {"block": "C", "loop": "ji"}),
            Step("parallel", {"block": "C", "loop": "i_0"}),
        )
    )
    assert relative_plan(plan, _RVV256).told() == "[rest, 2 vlen], [2 cores, 8]"
    wide = resized_plan(plan, _RVV256, _AVX512)
    assert [step.args.get("factors") for step in wide.steps[:2]] == [[-1, 32], [32, 8]]
    assert resized_plan(plan, _RVV256, _RVV256) is plan
