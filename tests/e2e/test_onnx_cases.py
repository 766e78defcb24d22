# SPDX-License-Identifier: Apache-2.0
"""Inputs on which users of such a tool met a fault: each with its right value."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx", reason="needs the Python package onnx")
pytest.importorskip("onnxruntime", reason="needs the Python package onnxruntime")

from onnx_graph import HOST, MICROSOFT, Graph

from kope_tvm.machine import load_target
from kope_tvm.target import TargetSpec

pytestmark = pytest.mark.e2e


def counted(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


@pytest.mark.parametrize("target", [HOST, load_target("host")], ids=["plain", "vectors"])
def test_case_a1_average_pool_of_two_columns(tmp_path: Path, target: TargetSpec) -> None:
    """Element (c, i, j) is 18c + 3i + j, so that a 2x2 window is on average 2 more."""
    graph = Graph(tmp_path)
    x = graph.feed("x", counted(1, 4, 6, 3))
    graph.node("AveragePool", [x], ["y"], kernel_shape=[2, 2])
    np.testing.assert_array_equal(graph.check(target)["y"], counted(1, 4, 6, 3)[:, :, :5, :2] + 2)


@pytest.mark.parametrize("sizes", [(2, 4), (0, 6), (5, 1)])
def test_case_a3_split_by_sizes_given_at_run_time(tmp_path: Path, sizes: tuple[int, int]) -> None:
    graph = Graph(tmp_path)
    x = graph.feed("x", counted(6, 2))
    given = graph.feed("sizes", np.array(sizes, np.int64))
    graph.node("Split", [x, given], ["first", "second"], axis=0)
    first, second = graph.ours()
    np.testing.assert_array_equal(first, counted(6, 2)[: sizes[0]])
    np.testing.assert_array_equal(second, counted(6, 2)[sizes[0] :])


def test_a_split_may_have_empty_parts(tmp_path: Path) -> None:
    graph = Graph(tmp_path)
    x = graph.feed("x", counted(2, 6))
    sizes = graph.weight("sizes", np.array([0, 4, 0, 2], np.int64))
    graph.node("Split", [x, sizes], ["none", "four", "gap", "two"], axis=-1)
    found = graph.check()
    assert [found[name].shape for name in graph.outputs] == [(2, 0), (2, 4), (2, 0), (2, 2)]
    np.testing.assert_array_equal(found["two"], counted(2, 6)[:, 4:])


def test_split_sizes_that_follow_from_shapes_are_folded(tmp_path: Path) -> None:
    graph = Graph(tmp_path)
    x = graph.feed("x", counted(6, 4))
    graph.node("Shape", [x], ["shape"])
    half = graph.weight("half", np.array([1, 2], np.int64))
    axis = graph.weight("axis", np.array([0], np.int64))
    graph.node("Slice", ["shape", axis, graph.weight("one", np.array([1], np.int64))], ["rows"])
    graph.node("Div", ["rows", graph.weight("three", np.array([3], np.int64))], ["third"])
    graph.node("Mul", ["third", half], ["sizes"])
    graph.node("Split", [x, "sizes"], ["a", "b"], axis=0)
    found = graph.check()
    assert (found["a"].shape, found["b"].shape) == ((2, 4), (4, 4))


def test_case_a9_softmax_of_opset_11_flattens(tmp_path: Path) -> None:
    """Before opset 13 all axes from `axis` on are one: 12 equal inputs make twelfths."""
    graph = Graph(tmp_path, opset=11)
    x = graph.feed("x", counted(2, 3, 4))
    ones = graph.feed("ones", np.ones((2, 3, 4), np.float32))
    graph.node("Softmax", [x], ["y"], axis=1)
    graph.node("Softmax", [ones], ["even"], axis=1)
    found = graph.check()
    np.testing.assert_allclose(found["even"], np.full((2, 3, 4), 1 / 12), rtol=1e-6)
    np.testing.assert_allclose(found["y"].sum(axis=(1, 2)), [1, 1], rtol=1e-6)


def test_case_a13_multi_head_attention(tmp_path: Path) -> None:
    """Two heads of one number; equal scores average what is seen of each head, here one, then two.

    The other operators of this case stand in test_onnx_ops_attention, _rotary, _qlinear and
    _recurrent, each with values worked out by hand.
    """
    graph = Graph(tmp_path)
    zeros = graph.feed("q", np.zeros((1, 2, 2), np.float32))
    values = graph.feed("v", np.array([[[1, 10], [3, 30]]], np.float32))
    inputs = [zeros, zeros, values]
    graph.node("MultiHeadAttention", inputs, ["y"], MICROSOFT, num_heads=2, unidirectional=1)
    assert graph.check()["y"].tolist() == [[[1, 10], [2, 20]]]


def test_case_a15_reshape_to_a_shape_computed_from_another_input(tmp_path: Path) -> None:
    """As exporters write `x.reshape(y.shape[0], -1)`: two inputs, a Gather and a Concat."""
    graph = Graph(tmp_path)
    x, y = graph.feed("x", counted(4, 6)), graph.feed("y", counted(3, 5))
    graph.node("Shape", [y], ["shape"])
    zero = graph.weight("zero", np.array([0], np.int64))
    rest = graph.weight("rest", np.array([-1], np.int64))
    graph.node("Gather", ["shape", zero], ["rows"])
    graph.node("Concat", ["rows", rest], ["target"], axis=0)
    graph.node("Reshape", [x, "target"], ["z"])
    np.testing.assert_array_equal(graph.check()["z"], counted(3, 8))
