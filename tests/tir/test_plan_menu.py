# SPDX-License-Identifier: Apache-2.0
"""The menu of moves and the transfer of plans to other shapes."""

from __future__ import annotations

import time
from typing import Any

import tvm
from rule_checks import LLVM
from tvm import te, topi
from tvm.s_tir import Schedule

from kope_tvm.outcome import Verdict
from kope_tvm.plan.menu import legal_moves
from kope_tvm.plan.primitives import primitives
from kope_tvm.plan.schedule import planned
from kope_tvm.plan.steps import read_steps
from kope_tvm.plan.transferred import transferred
from kope_tvm.proposal import Plan


def _matmul(m: int, n: int, k: int) -> Schedule:
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    r = te.reduce_axis((0, k), name="k")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    return _schedule(a, b, c)


def _softmax() -> Schedule:
    x = te.placeholder((512, 1024), name="x")
    return _schedule(x, topi.nn.softmax(x))


def _schedule(*tensors: te.Tensor) -> Schedule:
    mod = tvm.IRModule({"main": te.create_prim_func(list(tensors))})
    return Schedule(mod, debug_mask="none", error_render_level="detail")


def _lines(sch: Schedule, mechanism: str) -> list[str]:
    return [move.text for move in legal_moves(sch) if move.mechanism == mechanism]


def test_the_moves_of_a_matmul() -> None:
    sch = _matmul(81, 41, 48)
    assert _lines(sch, "tile") == [
        "split C.i: 81 spatial, divides by 3 9 27",
        "split C.j: 41 spatial, prime",
        "split C.k: 48 reduce, divides by 2 3 4 6 8 12 16 24",
    ]
    assert _lines(sch, "parallel") == [
        "parallel C.i: 81 iterations",
        "fuse C: i j, then parallel: 3321 iterations",
    ]
    assert _lines(sch, "vectorize") == ["vectorize C.j: unit stride in all it indexes"]
    assert _lines(sch, "reduce") == [
        "decompose_reduction C.k or around it, after all else",
        "rfactor C.k: 48 parts",
    ]
    assert _lines(sch, "cache") == [
        "cache_write C C: 81x41 float32, 12.97 KiB",
        "cache_read C A: 81x48 float32, 15.19 KiB",
        "cache_read C B: 48x41 float32, 7.688 KiB",
    ]
    assert _lines(sch, "layout") == [
        "transform_layout A_global after cache_read: lambda a, b: (b//16, a, b%16)"
    ]


def test_what_can_be_inlined_and_placed_is_asked_of_tvm() -> None:
    sch = _softmax()
    assert _lines(sch, "fuse") == ["compute_inline T_softmax_exp"]
    assert _lines(sch, "place") == [
        "compute_at T_softmax_maxelem at a loop of T_softmax_exp",
        "reverse_compute_at T_softmax_exp at a loop of T_softmax_maxelem",
        "compute_at T_softmax_expsum at a loop of T_softmax_norm",
        "reverse_compute_at T_softmax_norm at a loop of T_softmax_expsum",
    ]


def test_the_menu_is_the_same_each_time_short_and_of_known_mechanisms() -> None:
    moves = legal_moves(_softmax())
    assert moves == legal_moves(_softmax())
    assert max(len(move.text) for move in moves) <= 80
    assert len(set(moves)) == len(moves)
    assert {move.mechanism for move in moves} <= {one.mechanism for one in primitives().values()}


def test_the_menu_leaves_no_trace() -> None:
    sch = _softmax()
    before = str(sch.trace)
    legal_moves(sch)
    assert str(sch.trace) == before


def test_the_menu_of_four_blocks_takes_5_ms() -> None:
    sch = _softmax()
    legal_moves(sch)
    # The fastest of five: the others measure what else the machine is doing.
    assert min(_secs(sch) for _ in range(5)) < 0.005


def _secs(sch: Schedule) -> float:
    start = time.process_time()
    legal_moves(sch)
    return time.process_time() - start


_TILED: list[dict[str, Any]] = [
    {"do": "cache_read", "block": "C", "buffer": "B", "into": "pack"},
    {
        "do": "transform_layout",
        "block": "pack",
        "buffer": "B_global",
        "map": "lambda k, j: (j // 16, k, j % 16)",
    },
    {"do": "split", "block": "C", "loop": "i", "factors": [16, 4, 8]},
    {"do": "split", "block": "C", "loop": "j", "factors": [-1, 16]},
    {"do": "split", "block": "C", "loop": "k", "factors": [4, -1]},
    {"do": "reorder", "block": "C", "loops": ["i_0", "j_0", "i_1", "k_0", "k_1", "i_2", "j_1"]},
    {"do": "vectorize", "block": "C", "loop": "j_1"},
]


def _plan(steps: list[dict[str, Any]]) -> Plan:
    read = read_steps(steps)
    assert not isinstance(read, Verdict), read
    return Plan(read)


def _moved(sch: Schedule, extents_from: dict[str, int] | None = None) -> list[Any]:
    with tvm.target.Target(LLVM):
        found = transferred(_plan(_TILED), extents_from, sch)
        assert found is not None
        assert planned(found, sch) is None
    return [step.args.get("factors", step.args.get("map")) for step in found.steps[1:5]]


def test_tiles_move_to_the_nearest_divisors() -> None:
    """540 = 15 * 4 * 9, 332 = 83 * 4, 516 = 4 * 129."""
    assert _moved(_matmul(540, 332, 516)) == [
        "lambda k, j: (j // 4, k, j % 4)",
        [15, 4, 9],
        [83, 4],
        [4, 129],
    ]


def test_the_same_shape_gets_the_same_plan() -> None:
    extents = {"i": 512, "j": 512, "k": 512}
    assert _moved(_matmul(512, 512, 512), extents) == [
        "lambda k, j: (j // 16, k, j % 16)",
        [16, 4, 8],
        [-1, 16],
        [4, -1],
    ]


def test_the_schedule_that_was_asked_about_stays_as_it_was() -> None:
    sch = _matmul(540, 332, 516)
    before = sch.mod
    transferred(_plan(_TILED), None, sch)
    tvm.ir.assert_structural_equal(sch.mod, before)


def test_a_prime_extent_stays_whole_where_that_is_nearer() -> None:
    assert _moved(_matmul(41, 19, 81)) == [
        "lambda k, j: (j // 19, k, j % 19)",
        [1, 1, 41],
        [1, 19],
        [3, 27],
    ]


def test_a_plan_whose_names_do_not_fit_is_none() -> None:
    assert transferred(_plan(_TILED), None, _softmax()) is None
