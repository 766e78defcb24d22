# SPDX-License-Identifier: Apache-2.0
"""The x86 rule for stages that go head by head: attention over a cache, recurrences, scans."""

from __future__ import annotations

import numpy as np
import pytest
from rule_checks import (
    AVX2,
    AVX512,
    Array,
    assert_replays,
    assert_right,
    elementwise_func,
    inputs,
    run,
    with_random_decisions,
)
from tvm import te, tirx

from kope_tvm.operators import parse_operator
from kope_tvm.schedules import reduce_x86
from kope_tvm.schedules.heads_x86 import schedule


def func_of(spec: str) -> tirx.PrimFunc:
    return parse_operator(spec).tir()["main"]


def reference(spec: str, *arrays: Array) -> Array:
    return parse_operator(spec).reference(*arrays)


@pytest.mark.parametrize(
    "spec",
    [
        "op:decode_attention:g=2,r=4,n=32,d=16",
        "op:decode_attention:g=3,r=1,n=17,d=8",
        "op:attention:h=2,m=5,n=12,d=16",
        "op:rwkv_mix:t=3,h=2,d=16",
        "op:rwkv_mix:t=2,h=3,d=5",
        "op:cumsum:m=6,n=256",
        "op:cumsum:m=3,n=100",
        "op:cumsum:m=5,n=7",
    ],
)
def test_every_head_is_right(spec: str) -> None:
    assert_right(schedule, func_of(spec), lambda *arrays: reference(spec, *arrays), num_random=3)


def test_a_segment_gathers_what_is_added_to_it_by_vectors_of_floats() -> None:
    bound = parse_operator("op:scatter_add:v=5,m=12,n=48")
    func = bound.tir()["main"]
    data, ids, updates, out = inputs(func)
    ids[:] = np.arange(12).reshape(ids.shape) % 4
    wanted = bound.reference(data, ids, updates)
    (space,) = schedule(func, AVX512)
    assert_replays(func, space)
    for sch in (space, *(with_random_decisions(func, space, seed) for seed in range(4))):
        np.testing.assert_allclose(run(sch.mod, [data, ids, updates, out]), wanted, rtol=1e-5)
    lane = space.get_loops(space.get_sblock("segments_update"))[-1]
    # Of 64 bytes; the index is as wide as eight of them and the same for all.
    assert int(space.get(lane).extent) == 16


def sums_from_a_place_on(*, doubled: bool) -> tirx.PrimFunc:
    """Of each row, what is above zero."""
    data, k = te.placeholder((6, 40), name="data"), te.reduce_axis((0, 40), name="k")
    zero = tirx.const(0, "float32")
    positive = te.compute(
        (6,), lambda i: te.sum(tirx.Select(data[i, k] > 0, data[i, k], zero), axis=k), "positive"
    )
    out = te.compute((6,), lambda i: positive[i] * 2.0, "out") if doubled else positive
    return te.create_prim_func([data, out])


@pytest.mark.parametrize("doubled", [False, True])
def test_rows_without_columns_are_no_heads(doubled: bool) -> None:
    assert schedule(sums_from_a_place_on(doubled=doubled), AVX512) == []


def running_sums() -> tirx.PrimFunc:
    """Down the columns."""
    data, k = te.placeholder((32, 48), name="data"), te.reduce_axis((0, 32), name="k")
    zero = tirx.const(0, "float32")
    sums = te.compute(
        (32, 48), lambda i, j: te.sum(tirx.Select(k <= i, data[k, j], zero), axis=k), "sums"
    )
    return te.create_prim_func([data, sums])


def test_running_sums_down_the_columns_are_right() -> None:
    assert_right(schedule, running_sums(), lambda data: data.cumsum(0), num_random=3)


def test_running_sums_are_not_taken_for_reductions_of_rows() -> None:
    # The tails that those split off would be split at every row's own place.
    assert reduce_x86.schedule(running_sums(), AVX512) == []


def test_scores_of_one_head_only_are_kept() -> None:
    (sch,) = schedule(func_of("op:decode_attention:g=2,r=4,n=32,d=16"), AVX512)
    scores = sch.get_loops(sch.get_sblock("scores"))[0]
    assert int(sch.get(scores).extent) == 2
    assert sch.get(scores).same_as(sch.get(sch.get_loops(sch.get_sblock("attention_update"))[0]))


def test_what_has_no_product_is_not_taken() -> None:
    assert schedule(elementwise_func(), AVX2) == []
    assert schedule(func_of("op:softmax:m=4,n=16"), AVX2) == []
    assert schedule(func_of("op:matmul:m=4,n=16,k=4"), AVX2) == []


def test_boxes_that_overlap_a_better_one_go() -> None:
    boxes = np.array([[0, 0, 5], [0, 0, 5], [3, 3, 1], [3, 3, 1]], "float32")
    scores = np.array([0.9, 0.8, 0.7], "float32")
    bound = parse_operator("op:nms:n=3")
    assert bound.reference(boxes, scores).tolist() == pytest.approx([0.9, 0.0, 0.7])
