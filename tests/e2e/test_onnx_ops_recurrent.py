# SPDX-License-Identifier: Apache-2.0
"""LSTM, GRU and RNN: directions, biases, initial states."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="needs the Python package onnx")
pytest.importorskip("onnxruntime", reason="needs the Python package onnxruntime")

from onnx_graph import Graph

pytestmark = pytest.mark.e2e

STEPS, BATCH, INPUTS, HIDDEN = 3, 2, 4, 5
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


class Cells:
    """Adds recurrent nodes over one sequence to a graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.rng = graph, np.random.default_rng(17)
        self.x = graph.feed("x", self.uniform(STEPS, BATCH, INPUTS))

    def uniform(self, *shape: int) -> np.ndarray:
        return self.rng.uniform(-1, 1, shape).astype(np.float32)

    def weight(self, *shape: int) -> str:
        return str(self.graph.weight(f"w{len(self.graph.weights)}", self.uniform(*shape)))

    def add(self, kind: str, name: str, *, bias: bool, initial: bool, **rest: Any) -> None:
        directions = 2 if rest.get("direction") == "bidirectional" else 1
        rows, states = GATES[kind] * HIDDEN, 2 if kind == "LSTM" else 1
        inputs = [self.x, self.weight(directions, rows, INPUTS)]
        inputs += [self.weight(directions, rows, HIDDEN)]
        inputs += [self.weight(directions, 2 * rows) if bias else "", ""]
        if initial:
            shape = (directions, BATCH, HIDDEN)
            inputs += [self.graph.feed(f"{name}{at}", self.uniform(*shape)) for at in range(states)]
        outputs = [f"{name}_{each}" for each in ("y", "h", "c")[: 1 + states]]
        self.graph.node(kind, inputs, outputs, hidden_size=HIDDEN, **rest)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_directions_equal_onnx_runtime(tmp_path: Path, kind: str) -> None:
    graph = Graph(tmp_path)
    cells = Cells(graph)
    cells.add(kind, "bare", bias=False, initial=False)
    cells.add(kind, "reverse", bias=True, initial=False, direction="reverse")
    cells.add(kind, "both", bias=True, initial=True, direction="bidirectional")
    if kind == "GRU":
        cells.add(kind, "linear", bias=True, initial=True, linear_before_reset=1)
    graph.check()


def test_lstm_by_hand(tmp_path: Path) -> None:
    """With zero weights every gate is a half and fresh input 0: the cell halves at each step."""
    graph = Graph(tmp_path)
    x = graph.feed("x", np.ones((2, 1, 1), np.float32))
    zeros = graph.weight("zeros", np.zeros((1, 4, 1), np.float32))
    state = graph.feed("state", np.full((1, 1, 1), 8, np.float32))
    inputs = [x, zeros, zeros, "", "", state, state]
    graph.node("LSTM", inputs, ["y", "h", "c"], hidden_size=1)
    found = graph.check()
    assert found["c"].tolist() == [[[2]]]
    expected = [0.5 * np.tanh(4), 0.5 * np.tanh(2)]
    np.testing.assert_allclose(found["y"].reshape(-1), expected, rtol=1e-5)


def test_peepholes_lengths_and_activations_are_refused_by_name(tmp_path: Path) -> None:
    graph = Graph(tmp_path)
    cells = Cells(graph)
    rest: dict[str, Any] = {"activations": ["Sigmoid", "Relu", "Tanh"]}
    cells.add("LSTM", "lstm", bias=False, initial=True, **rest)
    lengths = graph.weight("lengths", np.full(BATCH, STEPS, np.int32))
    graph.nodes[0].input[4] = lengths
    graph.nodes[0].input.append(cells.weight(1, 3 * HIDDEN))
    place = "LSTM node the_lstm_y"
    assert graph.refusal() == (
        f"{place}: attribute activations=['Sigmoid', 'Relu', 'Tanh'] is not supported; "
        f"expected ['sigmoid', 'tanh', 'tanh']; {place}: input sequence_lens is not supported; "
        f"{place}: input P is not supported"
    )
