# SPDX-License-Identifier: Apache-2.0
"""One block of a llama-like decoder with 4-bit weights: a token against a cache."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx", reason="needs the Python package onnx")
pytest.importorskip("onnxruntime", reason="needs the Python package onnxruntime")

from onnx_graph import MICROSOFT, Graph, constants

from kope_tvm.model import load_model

pytestmark = pytest.mark.e2e

HIDDEN, HEADS, GROUPS, SIZE, WIDE, PAST = 64, 4, 2, 16, 96, 6


class Decoder:
    """Adds the parts of one block to a graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.rng = graph, np.random.default_rng(23)

    def uniform(self, *shape: int) -> np.ndarray:
        return self.rng.uniform(-1, 1, shape).astype(np.float32)

    def project(self, data: str, name: str, depth: int, columns: int) -> str:
        packed = self.rng.integers(0, 256, (columns, depth // 32, 16), np.uint8)
        scales = self.rng.uniform(0.01, 0.03, columns * depth // 32).astype(np.float32)
        inputs = [
            data,
            self.graph.weight(f"{name}_B", packed),
            self.graph.weight(f"{name}_scales", scales),
        ]
        sizes = {"K": depth, "N": columns, "bits": 4, "block_size": 32}
        self.graph.node("MatMulNBits", inputs, [name], MICROSOFT, **sizes)
        return name

    def attend(self, data: str) -> str:
        graph = self.graph
        angles = self.uniform(16, SIZE // 2) * 3
        inputs = [
            self.project(data, "query", HIDDEN, HEADS * SIZE),
            self.project(data, "key", HIDDEN, GROUPS * SIZE),
            self.project(data, "value", HIDDEN, GROUPS * SIZE),
            graph.feed("past_key", self.uniform(1, GROUPS, PAST, SIZE)),
            graph.feed("past_value", self.uniform(1, GROUPS, PAST, SIZE)),
            graph.feed("lengths", np.array([PAST], np.int32)),
            graph.weight("total", np.array(PAST + 1, np.int32)),
            graph.weight("cos", np.cos(angles)),
            graph.weight("sin", np.sin(angles)),
        ]
        outputs = ["attended", "present_key", "present_value"]
        sizes = {"num_heads": HEADS, "kv_num_heads": GROUPS, "do_rotary": 1}
        graph.node("GroupQueryAttention", inputs, outputs, MICROSOFT, **sizes)
        return self.project("attended", "mixed", HEADS * SIZE, HIDDEN)

    def feed_forward(self, data: str) -> str:
        gate, up = (self.project(data, name, HIDDEN, WIDE) for name in ("gate", "up"))
        self.graph.node("Sigmoid", [gate], ["share"])
        self.graph.node("Mul", [gate, "share"], ["swish"])
        self.graph.node("Mul", ["swish", up], ["gated"])
        return self.project("gated", "down", WIDE, HIDDEN)


def block(folder: Path) -> Graph:
    graph = Graph(folder)
    make = Decoder(graph)
    x = graph.feed("x", make.uniform(1, 1, HIDDEN))
    norms = [graph.weight(f"norm{at}", make.uniform(HIDDEN)) for at in range(2)]
    graph.node("SimplifiedLayerNormalization", [x, norms[0]], ["normal"], epsilon=1e-5)
    mixed = make.attend("normal")
    graph.node(
        "SkipSimplifiedLayerNormalization",
        [x, mixed, norms[1]],
        ["normal_too", "", "", "residual"],
        MICROSOFT,
        epsilon=1e-5,
    )
    graph.node("Add", ["residual", make.feed_forward("normal_too")], ["y"])
    return graph


def test_a_decode_step_equals_onnx_runtime(tmp_path: Path) -> None:
    graph = block(tmp_path)
    found = graph.check()
    past = graph.feeds["past_value"]
    np.testing.assert_array_equal(found["present_value"][:, :, :PAST], past)


def test_its_weights_stay_packed(tmp_path: Path) -> None:
    """Every constant with more elements than any has scales is bytes: no weight is floats."""
    arrays = constants(load_model(block(tmp_path).save()).mod["main"])
    large = [array for array in arrays if array.size > WIDE * HIDDEN // 32]
    assert [str(array.dtype) for array in large] == ["uint8"] * 7
