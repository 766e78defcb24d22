# SPDX-License-Identifier: Apache-2.0
"""QuantizeLinear and DequantizeLinear: by tensor, axis and block, with 4-bit constants."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx", reason="needs the Python package onnx")
pytest.importorskip("onnxruntime", reason="needs the Python package onnxruntime")

import onnx
from onnx_graph import MICROSOFT, Graph

pytestmark = pytest.mark.e2e

INT4, UINT4 = onnx.TensorProto.INT4, onnx.TensorProto.UINT4


def int4(graph: Graph, name: str, values: np.ndarray, kind: int = INT4) -> str:
    raw = values.astype(np.uint8).reshape(-1) & 15
    padded = np.append(raw, np.uint8(0)) if raw.size % 2 else raw
    packed = (padded[::2] | padded[1::2] << 4).tobytes()
    tensor = onnx.helper.make_tensor(name, kind, values.shape, packed, raw=True)
    graph.weights.append(tensor)
    return name


def test_case_a14_each_column_has_its_scale(tmp_path: Path) -> None:
    graph = Graph(tmp_path)
    data = graph.feed("data", np.full((2, 3), 10, np.int8))
    scale = graph.weight("scale", np.array([1, 2, 4], np.float32))
    points = graph.weight("points", np.array([0, 5, -10], np.int8))
    graph.node("DequantizeLinear", [data, scale, points], ["y"], axis=1)
    np.testing.assert_array_equal(graph.check()["y"], [[10, 10, 80]] * 2)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_axes_equal_onnx_runtime(tmp_path: Path, dtype: type) -> None:
    """Both directions on a tensor of rank 3, each axis, and one scale for all."""
    graph = Graph(tmp_path)
    rng = np.random.default_rng(7)
    shape = (2, 3, 4)
    floats = graph.feed("floats", rng.uniform(-300, 300, shape).astype(np.float32))
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    data = graph.feed("data", rng.integers(low, high, shape, dtype, endpoint=True))
    for axis in (None, 0, 1, 2, -1, -2):
        extents = () if axis is None else (shape[axis],)
        scale = graph.weight(f"s{axis}", rng.uniform(0.5, 2, extents).astype(np.float32))
        points = graph.weight(f"p{axis}", rng.integers(0, 9, extents).astype(dtype))
        place = {} if axis is None else {"axis": axis}
        graph.node("DequantizeLinear", [data, scale, points], [f"d{axis}"], **place)
        graph.node("DequantizeLinear", [data, scale], [f"e{axis}"], **place)
        graph.node("QuantizeLinear", [floats, scale, points], [f"q{axis}"], **place)
    graph.node("DequantizeLinear", [data, "s1", "p1"], ["md"], MICROSOFT, axis=1)
    graph.node("QuantizeLinear", [floats, "sNone", "pNone"], ["mq"], MICROSOFT)
    graph.check()


def test_halves_are_rounded_to_even_and_clipped(tmp_path: Path) -> None:
    graph = Graph(tmp_path)
    floats = graph.feed("x", np.array([0.5, 1.5, 2.5, -0.5, -1.5, 200, -200], np.float32))
    scale = graph.weight("scale", np.array(1, np.float32))
    points = graph.weight("points", np.array(3, np.int8))
    graph.node("QuantizeLinear", [floats, scale, points], ["y"])
    assert graph.check()["y"].tolist() == [3, 5, 5, 3, 1, 127, -128]


def test_other_widths_equal_onnx_runtime(tmp_path: Path) -> None:
    graph = Graph(tmp_path, opset=21)
    rng = np.random.default_rng(3)
    scale = graph.weight("scale", np.array([0.5, 0.25, 2], np.float32))
    half = graph.weight("half", np.array(0.5, np.float16))
    bias = graph.feed("bias", rng.integers(-99, 99, (2, 3), np.int32))
    graph.node("DequantizeLinear", [bias, scale], ["b"], axis=1)
    for dtype in (np.int16, np.uint16):
        data = graph.feed(dtype.__name__, rng.integers(0, 999, (2, 3)).astype(dtype))
        point = graph.weight(f"{dtype.__name__}0", np.array(7, dtype))
        graph.node("DequantizeLinear", [data, half, point], [f"y{dtype.__name__}"])
    graph.check()


def test_case_a6_int4_in_blocks_then_matmul(tmp_path: Path) -> None:
    """Rows 0 to 15 are 7, the others -8; ones sum up to 16*7*first - 16*8*second scale."""
    graph = Graph(tmp_path, opset=21)
    weights = int4(graph, "W", np.repeat(np.array([[7] * 4, [-8] * 4]), 16, axis=0))
    scales = np.array([[1, 2, 3, 4], [1, 1, 2, 0]], np.float32)
    scale = graph.weight("scale", scales)
    ones = graph.feed("ones", np.ones((1, 32), np.float32))
    graph.node("DequantizeLinear", [weights, scale], ["d"], axis=0, block_size=16)
    graph.node("MatMul", [ones, "d"], ["y"])
    np.testing.assert_array_equal(graph.check()["y"], 16 * (7 * scales[:1] - 8 * scales[1:]))


def test_blocks_equal_onnx_runtime(tmp_path: Path) -> None:
    """4-bit and byte constants, zero points, either axis, a last block that is not full."""
    graph = Graph(tmp_path, opset=21)
    rng = np.random.default_rng(5)
    for number, (axis, block, shape) in enumerate(
        [(0, 4, (8, 3)), (1, 4, (3, 10)), (1, 2, (3, 5))]
    ):
        blocks = list(shape)
        blocks[axis] = -(-shape[axis] // block)
        scale = graph.weight(f"s{number}", rng.uniform(0.5, 2, blocks).astype(np.float32))
        place = {"axis": axis, "block_size": block}
        for name, kind, low in (("i", INT4, -8), ("u", UINT4, 0)):
            data = int4(graph, f"{name}{number}", rng.integers(low, low + 16, shape), kind)
            zero = int4(graph, f"{name}z{number}", rng.integers(low, low + 16, blocks), kind)
            graph.node("DequantizeLinear", [data, scale, zero], [f"y{name}{number}"], **place)
        data = graph.feed(f"x{number}", rng.integers(-128, 128, shape).astype(np.int8))
        graph.node("DequantizeLinear", [data, scale], [f"y{number}"], **place)
    graph.check()


def test_other_uses_of_4_bits_are_refused(tmp_path: Path) -> None:
    graph = Graph(tmp_path, opset=21)
    floats = graph.feed("x", np.ones(4, np.float32))
    scale = graph.weight("scale", np.array(1, np.float32))
    point = int4(graph, "point", np.array(0))
    graph.node("QuantizeLinear", [floats, scale, point], ["q"])
    assert graph.refusal() == (
        "QuantizeLinear node the_q: input point of 4-bit elements is not supported"
    )
