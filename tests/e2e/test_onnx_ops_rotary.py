# SPDX-License-Identifier: Apache-2.0
"""RotaryEmbedding, both domains': layouts, pairings, positions, part of a head."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx", reason="needs the Python package onnx")
pytest.importorskip("onnxruntime", reason="needs the Python package onnxruntime")

from onnx_graph import MICROSOFT, Graph

pytestmark = pytest.mark.e2e

BATCH, HEADS, LENGTH, SIZE, ROWS = 2, 3, 4, 8, 16


def tables(graph: Graph, width: int) -> tuple[str, str]:
    angles = np.random.default_rng(width).uniform(0, 6, (ROWS, width // 2))
    cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    return graph.weight(f"cos{width}", cos), graph.weight(f"sin{width}", sin)


def fed(graph: Graph) -> tuple[str, str, str, str]:
    """Data of either layout, an offset and a position for each place."""
    rng = np.random.default_rng(1)
    flat = rng.uniform(-1, 1, (BATCH, LENGTH, HEADS * SIZE)).astype(np.float32)
    heads = rng.uniform(-1, 1, (BATCH, HEADS, LENGTH, SIZE)).astype(np.float32)
    return (
        graph.feed("flat", flat),
        graph.feed("heads", heads),
        graph.feed("offset", np.array([5], np.int64)),
        graph.feed("places", rng.integers(0, ROWS, (BATCH, LENGTH), np.int64)),
    )


@pytest.mark.parametrize("interleaved", [0, 1])
def test_microsofts_equals_onnx_runtime(tmp_path: Path, interleaved: int) -> None:
    graph = Graph(tmp_path)
    flat, heads, offset, places = fed(graph)
    whole, part = tables(graph, SIZE), tables(graph, SIZE // 2)
    rest = {"interleaved": interleaved, "domain": MICROSOFT}
    graph.node("RotaryEmbedding", [flat, offset, *whole], ["a"], **rest)
    graph.node("RotaryEmbedding", [heads, places, *whole], ["b"], **rest)
    some = {"num_heads": HEADS, "rotary_embedding_dim": SIZE // 2, **rest}
    graph.node("RotaryEmbedding", [flat, places, *part], ["c"], **some)
    graph.check()


@pytest.mark.parametrize("interleaved", [0, 1])
def test_the_standards_equals_onnx_runtime(tmp_path: Path, interleaved: int) -> None:
    graph = Graph(tmp_path, opset=23)
    flat, heads, _, places = fed(graph)
    graph.feeds.pop("offset")
    whole, part = tables(graph, SIZE), tables(graph, SIZE // 2)
    angles = np.random.default_rng(2).uniform(0, 6, (BATCH, LENGTH, SIZE // 2))
    picked = [
        graph.weight(name, table(angles).astype(np.float32))
        for name, table in (("cos", np.cos), ("sin", np.sin))
    ]
    graph.node(
        "RotaryEmbedding", [flat, *whole, places], ["a"], num_heads=HEADS, interleaved=interleaved
    )
    graph.node("RotaryEmbedding", [heads, *whole, places], ["b"], interleaved=interleaved)
    graph.node("RotaryEmbedding", [heads, *picked], ["c"], interleaved=interleaved)
    graph.node(
        "RotaryEmbedding",
        [heads, *part, places],
        ["d"],
        num_heads=HEADS,
        interleaved=interleaved,
        rotary_embedding_dim=SIZE // 2,
    )
    graph.check()


def test_a_quarter_turn_by_hand(tmp_path: Path) -> None:
    """With cos 0 and sin 1 a pair (a, b) becomes (-b, a)."""
    graph = Graph(tmp_path)
    data = graph.feed("x", np.arange(4, dtype=np.float32).reshape(1, 1, 4))
    offset = graph.weight("offset", np.array([0], np.int64))
    cos = graph.weight("cos", np.zeros((1, 2), np.float32))
    sin = graph.weight("sin", np.ones((1, 2), np.float32))
    for name, interleaved in (("halves", 0), ("neighbours", 1)):
        inputs = [data, offset, cos, sin]
        graph.node("RotaryEmbedding", inputs, [name], MICROSOFT, interleaved=interleaved)
    found = graph.check()
    assert found["halves"].tolist() == [[[-2, -3, 0, 1]]]
    assert found["neighbours"].tolist() == [[[-1, 0, -3, 2]]]


def test_packed_batches_and_scales_are_refused_by_name(tmp_path: Path) -> None:
    graph = Graph(tmp_path)
    flat, _, offset, _ = fed(graph)
    inputs = [flat, offset, *tables(graph, SIZE)]
    graph.node("RotaryEmbedding", inputs, ["y"], MICROSOFT, scale=2.0, is_packed_batching=1)
    graph.feeds.pop("heads")
    assert graph.refusal() == (
        "com.microsoft.RotaryEmbedding node the_y: attribute is_packed_batching=1 is not "
        "supported; expected 0; com.microsoft.RotaryEmbedding node the_y: attribute scale=2.0 is "
        "not supported; expected 1.0"
    )
