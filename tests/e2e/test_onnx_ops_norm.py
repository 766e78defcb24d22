# SPDX-License-Identifier: Apache-2.0
"""Skip and simplified layer normalisation, with every choice of optional inputs and outputs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx", reason="needs the Python package onnx")
pytest.importorskip("onnxruntime", reason="needs the Python package onnxruntime")

from onnx_graph import MICROSOFT, Graph

pytestmark = pytest.mark.e2e

SHAPE = (2, 3, 8)


def uniform(graph: Graph, name: str, *shape: int) -> str:
    rng = np.random.default_rng(len(graph.feeds))
    return str(graph.feed(name, rng.uniform(-1, 1, shape).astype(np.float32)))


def test_every_choice_of_inputs_equals_onnx_runtime(tmp_path: Path) -> None:
    graph = Graph(tmp_path)
    x, skip = uniform(graph, "x", *SHAPE), uniform(graph, "skip", *SHAPE)
    row = uniform(graph, "row", *SHAPE[1:])
    gamma, beta, bias = (uniform(graph, name, 8) for name in ("gamma", "beta", "bias"))
    for number, (inputs, outputs) in enumerate(
        [
            ((x, skip, gamma), 1),
            ((x, skip, gamma, beta), 4),
            ((x, skip, gamma, beta, bias), 4),
            ((x, skip, gamma, "", bias), 1),
            ((x, row, gamma, beta), 1),
        ]
    ):
        made = [f"n{number}", "", "", f"sum{number}"][:outputs]
        graph.node("SkipLayerNormalization", inputs, made, MICROSOFT, epsilon=1e-5)
    for number, (inputs, outputs) in enumerate(
        [
            ((x, skip, gamma), 4),
            ((x, skip, gamma, bias), 4),
            ((x, row, gamma), 1),
        ]
    ):
        made = [f"m{number}", "", "", f"total{number}"][:outputs]
        graph.node("SkipSimplifiedLayerNormalization", inputs, made, MICROSOFT, epsilon=1e-5)
    graph.node("SimplifiedLayerNormalization", [x, gamma], ["simple"], axis=-1, epsilon=1e-3)
    graph.check()


def test_by_hand(tmp_path: Path) -> None:
    """The sum [3, 4] has the root mean square sqrt(12.5), the mean 3.5 and the deviation 0.5."""
    graph = Graph(tmp_path)
    x = graph.feed("x", np.array([[[1, 1]]], np.float32))
    skip = graph.feed("skip", np.array([[[2, 3]]], np.float32))
    gamma = graph.weight("gamma", np.array([1, 2], np.float32))
    inputs, outputs = [x, skip, gamma], ["", "", ""]
    graph.node("SkipLayerNormalization", inputs, ["layer", *outputs[1:], "sum"], MICROSOFT)
    graph.node("SkipSimplifiedLayerNormalization", inputs, ["rms"], MICROSOFT)
    found = graph.check()
    np.testing.assert_array_equal(found["sum"], [[[3, 4]]])
    np.testing.assert_allclose(found["layer"], [[[-1, 2]]], rtol=1e-6)
    np.testing.assert_allclose(found["rms"], [[[3 / 12.5**0.5, 8 / 12.5**0.5]]], rtol=1e-6)


def test_statistics_are_refused_by_name(tmp_path: Path) -> None:
    graph = Graph(tmp_path)
    x, gamma = uniform(graph, "x", *SHAPE), uniform(graph, "gamma", 8)
    graph.node("SkipSimplifiedLayerNormalization", [x, x, gamma], ["y", "", "inverse"], MICROSOFT)
    assert graph.refusal() == (
        "com.microsoft.SkipSimplifiedLayerNormalization node the_y: "
        "output inv_std_var is not supported"
    )
