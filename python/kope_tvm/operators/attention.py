# SPDX-License-Identifier: Apache-2.0
"""Scaled dot-product attention, as exporters spell it without a fused operator."""

from __future__ import annotations

import math

import numpy as np
from tvm import te, topi

from kope_tvm.operators.operator import Node, Operator, Parameters
from kope_tvm.tensor_spec import TensorSpec


def _inputs(p: Parameters) -> tuple[TensorSpec, ...]:
    return (
        TensorSpec("Q", p.shape("h m d"), p.dtype),
        TensorSpec("K", p.shape("h n d"), p.dtype),
        TensorSpec("V", p.shape("h n d"), p.dtype),
    )


def attend(p: Parameters, query: te.Tensor, key: te.Tensor, value: te.Tensor) -> te.Tensor:
    """[h, m, d] of queries [h, m, d], keys and values [h, n, d]."""
    heads, rows, depth = map(int, query.shape)
    keys = int(key.shape[1])
    d, n = te.reduce_axis((0, depth), name="d"), te.reduce_axis((0, keys), name="n")
    scale = te.const(1 / math.sqrt(depth), p.dtype)
    dots = te.compute(
        (heads, rows, keys), lambda h, i, j: te.sum(query[h, i, d] * key[h, j, d], axis=d), "scores"
    )
    scaled = te.compute(dots.shape, lambda h, i, j: dots[h, i, j] * scale, "scaled")
    weights = topi.nn.softmax(scaled, axis=-1)
    return te.compute(
        (heads, rows, depth),
        lambda h, i, j: te.sum(weights[h, i, n] * value[h, n, j], axis=n),
        "attention",
    )


def nodes(p: Parameters) -> tuple[Node, ...]:
    """The same for ONNX, of inputs Q, K and V."""
    scale = np.array(1 / math.sqrt(p["d"]), p.dtype)
    return (
        Node("Transpose", ("K",), "keys", {"perm": [0, 2, 1]}),
        Node("MatMul", ("Q", "keys"), "dots"),
        Node("Constant", (), "scale", {"value": scale}),
        Node("Mul", ("dots", "scale"), "scaled"),
        Node("Softmax", ("scaled",), "weights", {"axis": -1}),
        Node("MatMul", ("weights", "V"), "out"),
    )


def evaluate(p: Parameters, query: np.ndarray, key: np.ndarray, value: np.ndarray) -> np.ndarray:
    """The same in numpy."""
    dots = query @ key.swapaxes(-1, -2) / np.sqrt(np.array(p["d"], query.dtype))
    weights = np.exp(dots - dots.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True) @ value)


ATTENTION = Operator(
    name="attention",
    summary="O[h, m, d] = softmax(Q[h, m, d] @ K[h, n, d]^T / sqrt(d)) @ V[h, n, d]",
    sizes={"h": 8, "m": 128, "n": 128, "d": 64},
    inputs=_inputs,
    compute=attend,
    nodes=nodes,
    evaluate=evaluate,
)
OPERATORS = (ATTENTION,)
