# SPDX-License-Identifier: Apache-2.0
"""Whole plans on real operators: right values, traces that replay, tiles that a search can turn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from rule_checks import AVX2, inputs, run
from tvm import te, topi

from kope_tvm.candidate import Candidate
from kope_tvm.outcome import Verdict
from kope_tvm.plan.steps import read_steps
from kope_tvm.proposal import Decisions, Plan
from kope_tvm.space import Space, neighbours
from kope_tvm.workbench import Workbench, make_task, trace_text


def _bench(*tensors: te.Tensor) -> Workbench:
    mod = tvm.IRModule({"main": te.create_prim_func(list(tensors))})
    return Workbench(make_task("f", mod, AVX2))


def _matmul(m: int = 64, n: int = 96, k: int = 48) -> Workbench:
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    r = te.reduce_axis((0, k), name="k")
    return _bench(
        a, b, te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    )


def _softmax() -> Workbench:
    x = te.placeholder((24, 80), name="x")
    return _bench(x, topi.nn.softmax(x))


def _depthwise() -> Workbench:
    data = te.placeholder((1, 8, 17, 17), name="data")
    weight = te.placeholder((8, 1, 3, 3), name="weight")
    return _bench(data, weight, topi.nn.depthwise_conv2d_nchw(data, weight, 2, 1, 1))


MATMUL: list[dict[str, Any]] = [
    {"do": "cache_write", "block": "C", "buffer": "C", "scope": "global", "into": "Cw"},
    {"do": "cache_read", "block": "C", "buffer": "B", "into": "Bp"},
    {
        "do": "transform_layout",
        "block": "Bp",
        "buffer": "B_global",
        "map": "lambda k, j: (j // 16, k, j % 16)",
    },
    {"do": "split", "block": "C", "loop": "i", "factors": [4, 4, 4], "into": ["i0", "i1", "i2"]},
    {"do": "split", "block": "C", "loop": "j", "factors": [3, 2, 16]},
    {"do": "split", "block": "C", "loop": "k", "factors": [-1, 4]},
    {
        "do": "reorder",
        "block": "C",
        "loops": ["i0", "j_0", "i1", "j_1", "k_0", "k_1", "i2", "j_2"],
    },
    {"do": "fuse", "block": "C", "loops": ["i0", "j_0"], "into": "tile"},
    {"do": "reverse_compute_at", "block": "Cw", "at": "j_1", "of": "C"},
    {"do": "parallel", "block": "C", "loop": "tile"},
    {"do": "vectorize", "block": "C", "loop": "j_2"},
    {"do": "unroll", "block": "C", "loop": "i2"},
    {"do": "vectorize", "block": "Cw", "loop": "ax1"},
    {"do": "fuse", "block": "Bp", "loops": ["ax0", "ax1"], "into": "pack"},
    {"do": "parallel", "block": "Bp", "loop": "pack"},
    {"do": "decompose_reduction", "block": "C", "loop": "k_0", "into": "Cinit"},
    {
        "do": "annotate",
        "block": "C",
        "loop": "tile",
        "key": "pragma_auto_unroll_max_step",
        "value": 16,
    },
]
SOFTMAX: list[dict[str, Any]] = [
    {"do": "compute_inline", "block": "T_softmax_exp"},
    {"do": "parallel", "block": "T_softmax_norm", "loop": "i0"},
    {
        "do": "reverse_compute_at",
        "block": "T_softmax_expsum",
        "at": "i0",
        "of": "T_softmax_maxelem",
    },
    {"do": "split", "block": "T_softmax_norm", "loop": "i1", "factors": [10, 8]},
    {"do": "vectorize", "block": "T_softmax_norm", "loop": "i1_1"},
    {"do": "split", "block": "T_softmax_maxelem", "loop": "k", "factors": [10, 8]},
    {"do": "rfactor", "block": "T_softmax_maxelem", "loop": "k_1", "axis": 1, "into": "lanes"},
]
DEPTHWISE: list[dict[str, Any]] = [
    {"do": "compute_at", "block": "PaddedInput", "at": "c", "of": "DepthwiseConv2d"},
    {"do": "parallel", "block": "DepthwiseConv2d", "loop": "c"},
    {"do": "split", "block": "DepthwiseConv2d", "loop": "j", "factors": [3, 3]},
    {"do": "reorder", "block": "DepthwiseConv2d", "loops": ["di", "dj", "j_1"]},
    {"do": "unroll", "block": "DepthwiseConv2d", "loop": "dj"},
    {"do": "vectorize", "block": "DepthwiseConv2d", "loop": "j_1"},
    {"do": "decompose_reduction", "block": "DepthwiseConv2d", "loop": "di"},
]


def planned(bench: Workbench, steps: object) -> Candidate:
    read = read_steps(steps)
    assert not isinstance(read, Verdict), read
    candidate = bench.apply(Plan(read))
    assert isinstance(candidate, Candidate), candidate
    return candidate


def assert_same_values(bench: Workbench, mod: tvm.IRModule) -> None:
    arrays = inputs(bench.mod["main"])
    np.testing.assert_allclose(run(mod, arrays), run(bench.mod, arrays), rtol=1e-4, atol=1e-4)


_PLANS = {
    "matmul": (_matmul, MATMUL, 3),
    "softmax": (_softmax, SOFTMAX, 2),
    "depthwise": (_depthwise, DEPTHWISE, 1),
}


def test_matmul_by_plan_is_numpys_matmul() -> None:
    bench = _matmul()
    arrays = inputs(bench.mod["main"])
    got = run(planned(bench, MATMUL).sch.mod, arrays)
    np.testing.assert_allclose(got, arrays[0] @ arrays[1], rtol=1e-4, atol=1e-4)


def test_softmax_by_plan_is_numpys_softmax() -> None:
    bench = _softmax()
    arrays = inputs(bench.mod["main"])
    exp = np.exp(arrays[0] - arrays[0].max(axis=1, keepdims=True))
    got = run(planned(bench, SOFTMAX).sch.mod, arrays)
    np.testing.assert_allclose(got, exp / exp.sum(axis=1, keepdims=True), rtol=1e-4, atol=1e-6)


def test_depthwise_by_plan_is_numpys_convolution() -> None:
    bench = _depthwise()
    data, weight, out = inputs(bench.mod["main"])
    padded = np.pad(data, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = [
        padded[:, :, di : di + 17 : 2, dj : dj + 17 : 2] * weight[None, :, 0, di, dj, None, None]
        for di in range(3)
        for dj in range(3)
    ]
    got = run(planned(bench, DEPTHWISE).sch.mod, [data, weight, out])
    np.testing.assert_allclose(got, sum(windows), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", list(_PLANS))
def test_the_trace_of_a_plan_replays_on_the_untuned_function(name: str) -> None:
    make, steps, num_tiles = _PLANS[name]
    bench = make()
    candidate = planned(bench, steps)
    trace = trace_text(candidate.sch.trace)
    again = bench.apply(Decisions("plan", trace))
    assert isinstance(again, Candidate)
    assert again.state == candidate.state
    tiles = [knob for knob in Space("plan", trace).knobs if knob.kind == "SamplePerfectTile"]
    assert len(tiles) == num_tiles


def test_a_plans_tiles_are_knobs_with_the_plans_values() -> None:
    trace = trace_text(planned(_matmul(), MATMUL).sch.trace)
    assert [knob.value for knob in Space("plan", trace).knobs] == [(4, 4, 4), (3, 2, 16), (12, 4)]
    assert [knob.max_innermost for knob in Space("plan", trace).knobs] == [64, 64, 64]


def test_a_turned_tile_of_a_plan_computes_the_same() -> None:
    bench = _matmul()
    space = Space("plan", trace_text(planned(bench, MATMUL).sch.trace))
    for knob in space.knobs:
        turned = space.turned({knob.index: neighbours(knob)[0]})
        candidate = bench.apply(Decisions("plan", turned.trace))
        assert isinstance(candidate, Candidate), candidate
        assert_same_values(bench, candidate.sch.mod)


def test_a_tile_that_leaves_a_tail_is_guarded_and_right() -> None:
    bench = _matmul(41, 19, 81)
    candidate = planned(
        bench,
        [
            {"do": "split", "block": "C", "loop": "i", "factors": [-1, 8]},
            {"do": "split", "block": "C", "loop": "j", "factors": [3, 8]},
            {"do": "reorder", "block": "C", "loops": "i_0, j_0, k, i_1, j_1"},
        ],
    )
    assert Space("plan", trace_text(candidate.sch.trace)).knobs == ()
    assert "T.where" in candidate.sch.mod["main"].script()
    assert_same_values(bench, candidate.sch.mod)


def test_two_lanes_make_one_program() -> None:
    """A plan read back from its text is the plan that was measured."""
    bench = _matmul()
    read = read_steps(MATMUL)
    assert not isinstance(read, Verdict)
    plain = [{"do": step.primitive, **step.args} for step in read]
    assert planned(bench, plain).state == planned(bench, MATMUL).state
