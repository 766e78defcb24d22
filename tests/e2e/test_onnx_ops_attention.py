# SPDX-License-Identifier: Apache-2.0
"""Attention of the standard, MultiHeadAttention and GroupQueryAttention with its cache."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="needs the Python package onnx")
pytest.importorskip("onnxruntime", reason="needs the Python package onnxruntime")

import onnx
from onnx_graph import MICROSOFT, Graph, onnxruntime_version

pytestmark = pytest.mark.e2e
recent = pytest.mark.skipif(
    onnxruntime_version() < (1, 32),
    reason="ONNX Runtime 1.24 caps after the bias, 1.23 counts one key more in a window",
)

BATCH, SIZE = 2, 16


class Feeds:
    """Random inputs of a graph, one for each shape asked for."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.rng = np.random.default_rng(13)

    def __call__(self, *shape: int) -> str:
        name = f"x{len(self.graph.feeds)}"
        return str(self.graph.feed(name, self.rng.uniform(-1, 1, shape).astype(np.float32)))


def test_the_standards_equals_onnx_runtime(tmp_path: Path) -> None:
    graph = Graph(tmp_path, opset=23)
    feed = Feeds(graph)
    q, k, v = feed(BATCH, 4, 3, SIZE), feed(BATCH, 2, 5, SIZE), feed(BATCH, 2, 5, 6)
    full = feed(BATCH, 4, 5, SIZE)
    graph.node("Attention", [full, full, full], ["self"], is_causal=1)
    graph.node("Attention", [q, k, v], ["grouped"])
    graph.node("Attention", [q, k, v], ["scaled"], scale=0.5, softcap=0.7)
    graph.node("Attention", [q, k, v, feed(3, 5)], ["biased"])
    kept = np.array([[1, 0, 1, 1, 0], [0, 1, 1, 0, 1], [1, 1, 1, 0, 0]], bool)
    graph.node("Attention", [q, k, v, graph.weight("kept", kept)], ["kept_only"])
    past = [feed(BATCH, 2, 4, SIZE), feed(BATCH, 2, 4, 6)]
    new = [feed(BATCH, 2, 3, SIZE), feed(BATCH, 2, 3, 6)]
    graph.node("Attention", [q, *new, "", *past], ["causal", "keys", "values"], is_causal=1)
    flat = feed(BATCH, 3, 4 * SIZE), feed(BATCH, 5, 2 * SIZE), feed(BATCH, 5, 2 * 6)
    graph.node("Attention", flat, ["flat"], q_num_heads=4, kv_num_heads=2)
    graph.check()


@recent
def test_a_cap_comes_before_the_bias(tmp_path: Path) -> None:
    """Scores of 0 stay 0 under any cap, so that a bias of ln 3 gives its key three quarters."""
    graph = Graph(tmp_path, opset=23)
    zeros = graph.feed("q", np.zeros((1, 1, 2, 4), np.float32))
    values = graph.feed("v", np.array([[[[4], [8]]]], np.float32))
    bias = graph.weight("bias", np.array([[0, np.log(3)]], np.float32).repeat(2, axis=0))
    graph.node("Attention", [zeros, zeros, values, bias], ["y"], softcap=0.1)
    np.testing.assert_allclose(graph.check()["y"], [[[[7], [7]]]], rtol=1e-5)


def test_the_standards_by_hand(tmp_path: Path) -> None:
    """Equal scores average the values seen: causally the first one, then the first two."""
    graph = Graph(tmp_path, opset=23)
    zeros = graph.feed("q", np.zeros((1, 1, 2, 4), np.float32))
    values = graph.feed("v", np.array([[[[2], [6]]]], np.float32))
    graph.node("Attention", [zeros, zeros, values], ["y"], is_causal=1)
    assert graph.check()["y"].tolist() == [[[[2], [4]]]]


def test_multi_head_attention_equals_onnx_runtime(tmp_path: Path) -> None:
    graph = Graph(tmp_path)
    feed = Feeds(graph)
    hidden = 3 * SIZE
    q, k, v = feed(BATCH, 4, hidden), feed(BATCH, 5, hidden), feed(BATCH, 5, hidden)
    rest: dict[str, Any] = {"num_heads": 3, "domain": MICROSOFT}
    name = "MultiHeadAttention"
    graph.node(name, [q, k, v], ["plain"], **rest)
    graph.node(name, [q, k, v, feed(3 * hidden)], ["biased"], scale=0.3, **rest)
    kept = graph.weight("kept", np.array([[1, 1, 0, 1, 1], [1, 0, 0, 1, 1]], np.int32))
    graph.node(name, [q, k, v, "", kept, feed(BATCH, 3, 4, 5)], ["padded"], **rest)
    lengths = graph.weight("lengths", np.array([3, 5], np.int32))
    graph.node(name, [q, k, v, "", lengths], ["short"], **rest)
    graph.node(name, [q, q, q], ["causal"], unidirectional=1, **rest)
    heads = feed(BATCH, 3, 5, SIZE), feed(BATCH, 3, 5, SIZE)
    graph.node(name, [q, *heads], ["cross"], **rest)
    past = feed(BATCH, 3, 2, SIZE), feed(BATCH, 3, 2, SIZE)
    outputs = ["next", "keys", "values"]
    graph.node(name, [q, q, q, "", "", "", *past], outputs, unidirectional=1, **rest)
    graph.check()


class GroupQuery:
    """Adds GroupQueryAttention nodes of one model to a graph."""

    def __init__(self, graph: Graph, heads: int = 4, groups: int = 2) -> None:
        self.graph, self.feed = graph, Feeds(graph)
        self.heads, self.groups = heads, groups
        angles = self.feed.rng.uniform(0, 6, (32, SIZE // 2))
        self.tables = [
            graph.weight("cos", np.cos(angles).astype(np.float32)),
            graph.weight("sin", np.sin(angles).astype(np.float32)),
        ]

    def add(
        self, name: str, rows: int, lengths: list[int], total: int, buffer: int, **rest: Any
    ) -> None:
        """`lengths` are each batch's keys, the new ones included."""
        feed, graph = self.feed, self.graph
        extra, widths = rest.pop("extra", []), (self.heads, self.groups, self.groups)
        if rest.pop("is_packed", False):
            parts = [feed(BATCH, rows, sum(widths) * SIZE), "", ""]
        else:
            parts = [feed(BATCH, rows, width * SIZE) for width in widths]
        inputs = [
            *parts,
            feed(BATCH, self.groups, buffer, SIZE) if buffer else "",
            feed(BATCH, self.groups, buffer, SIZE) if buffer else "",
            graph.feed(f"{name}_lengths", np.array(lengths, np.int32) - 1),
            graph.weight(f"{name}_total", np.array(total, np.int32)),
            *(self.tables if rest.get("do_rotary") else ["", ""]),
            rest.pop("places", ""),
            *extra,
        ]
        while not inputs[-1]:
            inputs.pop()
        outputs = [f"{name}_y", f"{name}_keys", f"{name}_values"]
        sizes = {"num_heads": self.heads, "kv_num_heads": self.groups}
        graph.node("GroupQueryAttention", inputs, outputs, MICROSOFT, **sizes, **rest)


def test_prompts_equal_onnx_runtime(tmp_path: Path) -> None:
    graph = Graph(tmp_path)
    make = GroupQuery(graph)
    make.add("plain", 5, [5, 5], 5, 0)
    make.add("rotary", 5, [5, 5], 5, 0, do_rotary=1)
    make.add("neighbours", 5, [5, 5], 5, 0, do_rotary=1, rotary_interleaved=1)
    make.add("capped", 5, [5, 5], 5, 0, softcap=0.6, extra=[make.feed(1, 1, 5, 5)])
    make.add("smooth", 5, [5, 5], 5, 0, smooth_softmax=1)
    graph.check()


def test_packed_inputs_equal_onnx_runtime(tmp_path: Path) -> None:
    graph = Graph(tmp_path)
    make = GroupQuery(graph)
    make.add("prompt", 5, [5, 5], 5, 0, is_packed=True)
    make.add("turned", 5, [5, 5], 5, 0, is_packed=True, do_rotary=1)
    make.add("decoding", 1, [7, 4], 7, 6, is_packed=True, do_rotary=1)
    graph.check()


def test_given_places_equal_onnx_runtime(tmp_path: Path) -> None:
    """Of a prompt's the first one counts, for all rows."""
    graph = Graph(tmp_path)
    make = GroupQuery(graph)
    many = graph.weight("many", np.array([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]], np.int64))
    make.add("prompt", 5, [5, 5], 5, 0, do_rotary=1, places=many)
    ones = graph.weight("ones", np.array([[2], [9]], np.int64))
    make.add("decoding", 1, [7, 4], 7, 6, do_rotary=1, places=ones)
    graph.check()


def test_decoding_equals_onnx_runtime(tmp_path: Path) -> None:
    graph = Graph(tmp_path)
    make = GroupQuery(graph)
    make.add("grown", 1, [7, 7], 7, 6)
    make.add("uneven", 1, [7, 4], 7, 6, do_rotary=1)
    make.add("sunk", 1, [7, 5], 7, 6, extra=["", graph.weight("sink", np.ones(4, np.float32))])
    graph.check()


@recent
def test_a_window_has_as_many_keys_as_it_says(tmp_path: Path) -> None:
    graph = Graph(tmp_path)
    make = GroupQuery(graph)
    make.add("prompt", 5, [5, 5], 5, 0, local_window_size=2, scale=0.4)
    make.add("decoding", 1, [7, 4], 7, 6, local_window_size=3)
    graph.check()


def test_decoding_by_hand(tmp_path: Path) -> None:
    """A query of zeros averages the values: three of the past and the new one."""
    graph = Graph(tmp_path)
    zeros = graph.feed("q", np.zeros((1, 1, 8), np.float32))
    value = graph.feed("v", np.full((1, 1, 8), 9, np.float32))
    past = np.repeat(np.array([1, 2, 4], np.float32), 8).reshape(1, 1, 3, 8)
    keys, values = graph.feed("keys", past), graph.feed("values", past)
    lengths = graph.feed("lengths", np.array([3], np.int32))
    total = graph.weight("total", np.array(4, np.int32))
    inputs = [zeros, zeros, value, keys, values, lengths, total]
    outputs = ["y", "new_keys", "new_values"]
    graph.node("GroupQueryAttention", inputs, outputs, MICROSOFT, num_heads=1, kv_num_heads=1)
    found = graph.check()
    np.testing.assert_allclose(found["y"], np.full((1, 1, 8), 4), rtol=1e-6)
    assert found["new_values"][0, 0, :, 0].tolist() == [1, 2, 4, 9]
    assert found["new_keys"][0, 0, :, 0].tolist() == [1, 2, 4, 0]


def test_what_is_not_covered_is_refused_by_name(tmp_path: Path) -> None:
    graph = Graph(tmp_path)
    make = GroupQuery(graph)
    make.add("whole", 5, [5, 5], 5, 0)
    graph.nodes[0].output.append("scores")
    graph.nodes[0].attribute.append(onnx.helper.make_attribute("qk_output", 1))
    assert graph.refusal() == (
        "com.microsoft.GroupQueryAttention node the_whole_y: attribute qk_output=1 is not "
        "supported; expected 0; com.microsoft.GroupQueryAttention node the_whole_y: output "
        "output_qk is not supported"
    )


def test_a_total_length_of_the_run_is_refused(tmp_path: Path) -> None:
    graph = Graph(tmp_path)
    make = GroupQuery(graph)
    make.add("step", 1, [7, 7], 7, 6)
    graph.nodes[0].input[6] = graph.feed("total", np.array(7, np.int32))
    assert graph.refusal().startswith(
        "com.microsoft.GroupQueryAttention node the_step_y: total_sequence_length is known at run "
        "time only; "
    )
