# SPDX-License-Identifier: Apache-2.0
"""Rotary position embedding: the two halves of every head turned against each other."""

from __future__ import annotations

import numpy as np
from tvm import te, tirx

from kope_tvm.errors import ModelError
from kope_tvm.operators.operator import Node, Operator, Parameters
from kope_tvm.tensor_spec import TensorSpec

_LARGE = 1 << 31


def _inputs(p: Parameters) -> tuple[TensorSpec, ...]:
    if p["d"] % 2:
        raise ModelError(f"d={p['d']} of operator 'rope'; expected an even number")
    angles = (p["s"], 1, p["d"] // 2)
    return (
        TensorSpec("X", p.shape("s h d"), p.dtype),
        TensorSpec("cos", angles, p.dtype),
        TensorSpec("sin", angles, p.dtype),
    )


def _compute(p: Parameters, data: te.Tensor, cos: te.Tensor, sin: te.Tensor) -> te.Tensor:
    half = p["d"] // 2

    def turned(s: te.IterVar, h: te.IterVar, j: te.IterVar) -> te.Tensor:
        return tirx.if_then_else(
            j < half,
            data[s, h, j] * cos[s, 0, j] - data[s, h, j + half] * sin[s, 0, j],
            data[s, h, j] * cos[s, 0, j - half] + data[s, h, j - half] * sin[s, 0, j - half],
        )

    return te.compute(p.shape("s h d"), turned, name="rope")


def _nodes(p: Parameters) -> tuple[Node, ...]:
    half = p["d"] // 2
    return (
        Node("Constant", (), "axis", {"value": np.array([-1], np.int64)}),
        Node("Constant", (), "start", {"value": np.array([0], np.int64)}),
        Node("Constant", (), "half", {"value": np.array([half], np.int64)}),
        Node("Constant", (), "end", {"value": np.array([_LARGE], np.int64)}),
        Node("Slice", ("X", "start", "half", "axis"), "left"),
        Node("Slice", ("X", "half", "end", "axis"), "right"),
        Node("Mul", ("left", "cos"), "left_cos"),
        Node("Mul", ("right", "sin"), "right_sin"),
        Node("Sub", ("left_cos", "right_sin"), "first"),
        Node("Mul", ("right", "cos"), "right_cos"),
        Node("Mul", ("left", "sin"), "left_sin"),
        Node("Add", ("right_cos", "left_sin"), "second"),
        Node("Concat", ("first", "second"), "out", {"axis": -1}),
    )


def _evaluate(_: Parameters, data: np.ndarray, cos: np.ndarray, sin: np.ndarray) -> np.ndarray:
    left, right = np.split(data, 2, axis=-1)
    return np.concatenate([left * cos - right * sin, right * cos + left * sin], axis=-1)


ROPE = Operator(
    name="rope",
    summary="Y[s, h, d] = X turned by cos[s, 1, d / 2] and sin[s, 1, d / 2], halves against halves",
    sizes={"s": 512, "h": 16, "d": 64},
    inputs=_inputs,
    compute=_compute,
    nodes=_nodes,
    evaluate=_evaluate,
)
OPERATORS = (ROPE,)
