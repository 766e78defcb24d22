# SPDX-License-Identifier: Apache-2.0
"""QLinearMatMul, QLinearConv, ConvInteger and elementwise operators on bytes: equal, not close."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="needs the Python package onnx")
pytest.importorskip("onnxruntime", reason="needs the Python package onnxruntime")

from onnx_graph import MICROSOFT, Graph

pytestmark = pytest.mark.e2e


class Quantized:
    """Adds arrays of bytes with scales and zero points to a graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.rng = np.random.default_rng(11)
        self.count = 0

    def name(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def bytes(self, shape: tuple[int, ...], dtype: type) -> np.ndarray:
        return self.rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype)

    def fed(self, shape: tuple[int, ...], dtype: type) -> list[str]:
        return [self.graph.feed(self.name(), self.bytes(shape, dtype)), *self.scale(0.02, dtype)]

    def constant(self, shape: tuple[int, ...], dtype: type, count: int = 0) -> list[str]:
        weight = self.graph.weight(self.name(), self.bytes(shape, dtype))
        return [weight, *self.scale(0.02, dtype, count)]

    def scale(self, about: float, dtype: type, count: int = 0) -> list[str]:
        shape = (count,) if count else ()
        scale = self.rng.uniform(about, 2 * about, shape).astype(np.float32)
        low = 100 if dtype is np.uint8 else -5
        point: np.ndarray = np.asarray(self.rng.integers(low, low + 10, shape), dtype)
        return [self.graph.weight(self.name(), scale), self.graph.weight(self.name(), point)]


def test_matmul_equals_onnx_runtime(tmp_path: Path) -> None:
    graph = Graph(tmp_path)
    make = Quantized(graph)
    for number, (left, right, dtype, columns) in enumerate(
        [
            ((4, 8), (8, 3), np.uint8, 0),
            ((4, 8), (8, 3), np.uint8, 3),
            ((2, 3, 8), (8, 5), np.int8, 0),
            ((2, 3, 8), (2, 8, 4), np.int8, 0),
        ]
    ):
        a, b = make.fed(left, dtype), make.constant(right, np.int8, columns)
        graph.node("QLinearMatMul", [*a, *b, *make.scale(0.2, dtype)], [f"y{number}"])
    a, b = make.fed((4, 8), np.uint8), make.constant((8, 3), np.uint8)
    graph.node("QLinearMatMul", [*a, *b, *make.scale(0.2, np.uint8)], ["unsigned"])
    graph.check()


def test_matmul_by_hand(tmp_path: Path) -> None:
    """(130 - 128) * 0.5 times 3 * 0.25, four times, is 3.0; in steps of 0.5 above 10 that is 16."""
    graph = Graph(tmp_path)
    a = graph.feed("a", np.full((1, 4), 130, np.uint8))
    b = graph.weight("b", np.full((4, 1), 3, np.int8))
    points = [
        graph.weight(n, np.array(v, t))
        for n, v, t in (("pa", 128, np.uint8), ("pb", 0, np.int8), ("py", 10, np.uint8))
    ]
    scales = [graph.weight(f"s{v}", np.array(v, np.float32)) for v in (0.5, 0.25)]
    graph.node(
        "QLinearMatMul",
        [a, scales[0], points[0], b, scales[1], points[1], scales[0], points[2]],
        ["y"],
    )
    assert graph.check()["y"].tolist() == [[16]]


CONVOLUTIONS: tuple[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]], ...] = (
    ((1, 4, 7, 6), (6, 4, 3, 3), {}),
    ((1, 4, 7, 6), (6, 4, 3, 2), {"strides": [2, 1], "pads": [1, 0, 2, 1]}),
    ((2, 4, 8, 8), (4, 1, 3, 3), {"group": 4, "pads": [1, 1, 1, 1], "dilations": [1, 2]}),
    ((1, 3, 7, 6), (4, 3, 3, 2), {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    ((1, 3, 7, 6), (4, 3, 3, 2), {"auto_pad": "SAME_LOWER"}),
    ((1, 3, 9), (4, 3, 3), {"strides": [2]}),
    ((1, 2, 5, 4, 6), (3, 2, 2, 3, 3), {"pads": [0, 1, 1, 1, 1, 1], "strides": [1, 2, 1]}),
)


def test_conv_equals_onnx_runtime(tmp_path: Path) -> None:
    graph = Graph(tmp_path)
    make = Quantized(graph)
    for number, (data, weight, attributes) in enumerate(CONVOLUTIONS):
        dtype = np.int8 if number % 2 else np.uint8
        count = weight[0] if number < 3 else 0
        inputs = [*make.fed(data, dtype), *make.constant(weight, np.int8, count)]
        inputs[5] = graph.weight(make.name(), np.zeros(count or (), np.int8))
        inputs += make.scale(0.2, dtype)
        if number % 3:
            bias = make.rng.integers(-999, 999, weight[0], np.int32)
            inputs.append(graph.weight(make.name(), bias))
        graph.node("QLinearConv", inputs, [f"y{number}"], **attributes)
    graph.check()


def test_conv_integer_equals_onnx_runtime(tmp_path: Path) -> None:
    graph = Graph(tmp_path)
    make = Quantized(graph)
    for number, (data, weight, attributes) in enumerate(CONVOLUTIONS):
        x, _, point = make.fed(data, np.uint8)
        w, _, other = make.constant(weight, np.uint8)
        inputs = ([x, w], [x, w, point], [x, w, point, other])[number % 3]
        graph.node("ConvInteger", inputs, [f"y{number}"], **attributes)
    graph.check()


def test_elementwise_equals_onnx_runtime(tmp_path: Path) -> None:
    graph = Graph(tmp_path)
    make = Quantized(graph)
    for dtype in (np.uint8, np.int8):
        kind = dtype.__name__
        a, b, row = (make.fed(shape, dtype) for shape in ((2, 3, 4), (2, 3, 4), (4,)))
        out = make.scale(0.05, dtype)
        graph.node("QLinearAdd", [*a, *b, *out], [f"add_{kind}"], MICROSOFT)
        graph.node("QLinearAdd", [*a, *row, *out], [f"row_{kind}"], MICROSOFT)
        graph.node("QLinearMul", [*a, *b, *out], [f"mul_{kind}"], MICROSOFT)
        graph.node("QLinearLeakyRelu", [*a, *out], [f"leaky_{kind}"], MICROSOFT, alpha=0.1)
        graph.node("QLinearSigmoid", [*a, *out], [f"sigmoid_{kind}"], MICROSOFT)
        graph.node("QLinearConcat", [*out, *a, *b], [f"concat_{kind}"], MICROSOFT, axis=1)
    graph.check()


def test_a_scale_for_each_row_is_refused(tmp_path: Path) -> None:
    graph = Graph(tmp_path)
    make = Quantized(graph)
    a, b = make.fed((4, 8), np.uint8), make.constant((8, 3), np.int8)
    a[1] = graph.weight("rows", np.ones(4, np.float32))
    a[2] = graph.weight("points", np.zeros(4, np.uint8))
    graph.node("QLinearMatMul", [*a, *b, *make.scale(0.2, np.uint8)], ["y"])
    assert graph.refusal() == ("QLinearMatMul node the_y: a_scale of shape [4]: expected one scale")
