# SPDX-License-Identifier: Apache-2.0
"""A made-up transformer layer that decodes one token: int4 weights, grouped heads, a cache."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

_MICROSOFT = "com.microsoft"
_OPSETS = (helper.make_opsetid("", 17), helper.make_opsetid(_MICROSOFT, 1))
_IR_VERSION = 8
_BLOCK = 32
_ROTARY_BASE = 10_000.0


@dataclass(frozen=True)
class Sizes:
    """Of a layer; the defaults are those of TinyLlama 1.1B."""

    hidden: int = 2048
    heads: int = 32
    groups: int = 4
    """Heads of keys and values."""
    inner: int = 5632
    """Of the feed-forward network."""
    past: int = 255
    """Tokens in the cache."""

    @property
    def head(self) -> int:
        return self.hidden // self.heads


@dataclass
class _Graph:
    """Nodes and weights so far."""

    rng: np.random.Generator
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    weights: list[onnx.TensorProto] = field(default_factory=list)

    def weight(self, name: str, values: np.ndarray) -> str:
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def node(
        self, kind: str, inputs: list[str], output: str, domain: str = "", **attributes: object
    ) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [output], domain=domain, **attributes))
        return output

    def product(self, data: str, depth: int, columns: int, name: str) -> str:
        """A product with 4-bit weights in blocks of 32, symmetric."""
        blocks = depth // _BLOCK
        packed = self.rng.integers(0, 256, (columns, blocks, _BLOCK // 2), dtype=np.uint8)
        # Weights of variance 1 / depth: the activations stay as large as they came.
        scale = self.rng.uniform(0.5, 1.5, columns * blocks) / (4.6 * np.sqrt(depth))
        inputs = [
            data,
            self.weight(f"{name}.packed", packed),
            self.weight(f"{name}.scale", scale.astype(np.float32)),
        ]
        sizes = {"K": depth, "N": columns, "bits": 4, "block_size": _BLOCK}
        return self.node("MatMulNBits", inputs, name, _MICROSOFT, **sizes)

    def norm(self, data: str, size: int, name: str) -> str:
        scale = self.rng.uniform(0.5, 1.5, size).astype(np.float32)
        inputs = [data, self.weight(f"{name}.scale", scale)]
        # ONNX Runtime's own operator, though it stands in the standard's domain.
        return self.node("SimplifiedLayerNormalization", inputs, name, axis=-1, epsilon=1e-5)


def decode_block(sizes: Sizes = Sizes(), seed: int = 0) -> bytes:
    """The layer as an ONNX model: `x` [1, 1, hidden] and the cache in, the same out.

    The cache `past_key` and `past_value` is [1, groups, past, head]; what comes out of it has one
    token more.
    """
    graph = _Graph(np.random.default_rng(seed))
    attended = _attention(graph, sizes)
    first = graph.node("Add", ["x", attended], "first")
    _feed_forward(graph, sizes, first)
    cache = [1, sizes.groups, sizes.past, sizes.head]
    longer = [1, sizes.groups, sizes.past + 1, sizes.head]
    edges = [_edge("x", [1, 1, sizes.hidden]), _edge("past_key", cache), _edge("past_value", cache)]
    outs = [_edge("y", [1, 1, sizes.hidden]), _edge("key", longer), _edge("value", longer)]
    made = helper.make_graph(graph.nodes, "decode_block", edges, outs, graph.weights)
    model = helper.make_model(made, opset_imports=_OPSETS, ir_version=_IR_VERSION)
    return bytes(model.SerializeToString())


def _attention(graph: _Graph, sizes: Sizes) -> str:
    wide = sizes.groups * sizes.head
    data = graph.norm("x", sizes.hidden, "norm")
    query = graph.product(data, sizes.hidden, sizes.hidden, "query")
    key = graph.product(data, sizes.hidden, wide, "new_key")
    value = graph.product(data, sizes.hidden, wide, "new_value")
    lengths = graph.weight("lengths", np.array([sizes.past], np.int32))
    total = graph.weight("total", np.array([sizes.past + 1], np.int32))
    angles = np.outer(np.arange(sizes.past + 1), _frequencies(sizes.head))
    tables = [
        graph.weight(name, table(angles).astype(np.float32))
        for name, table in (("cos", np.cos), ("sin", np.sin))
    ]
    graph.nodes.append(
        helper.make_node(
            "GroupQueryAttention",
            [query, key, value, "past_key", "past_value", lengths, total, *tables],
            ["attended", "key", "value"],
            domain=_MICROSOFT,
            num_heads=sizes.heads,
            kv_num_heads=sizes.groups,
            do_rotary=1,
        )
    )
    return graph.product("attended", sizes.hidden, sizes.hidden, "projected")


def _feed_forward(graph: _Graph, sizes: Sizes, first: str) -> None:
    data = graph.norm(first, sizes.hidden, "second_norm")
    gate = graph.product(data, sizes.hidden, sizes.inner, "gate")
    up = graph.product(data, sizes.hidden, sizes.inner, "up")
    open_ = graph.node("Mul", [gate, graph.node("Sigmoid", [gate], "sigmoid")], "silu")
    inner = graph.node("Mul", [open_, up], "inner")
    graph.node("Add", [first, graph.product(inner, sizes.inner, sizes.hidden, "down")], "y")


def _frequencies(head: int) -> np.ndarray:
    found: np.ndarray = _ROTARY_BASE ** (-np.arange(0, head, 2) / head)
    return found


def _edge(name: str, shape: list[int]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
