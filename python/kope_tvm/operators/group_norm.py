# SPDX-License-Identifier: Apache-2.0
"""Normalisation over groups of channels, as diffusion models use it."""

from __future__ import annotations

import numpy as np
from tvm import te, topi

from kope_tvm.errors import ModelError
from kope_tvm.operators.norm import EPSILON
from kope_tvm.operators.operator import Node, Operator, Parameters
from kope_tvm.tensor_spec import TensorSpec


def _inputs(p: Parameters) -> tuple[TensorSpec, ...]:
    if p["ci"] % p["groups"]:
        raise ModelError(
            f"ci={p['ci']} of operator 'group_norm'; expected a multiple of groups={p['groups']}"
        )
    return (
        TensorSpec("X", p.shape("n ci h w"), p.dtype),
        TensorSpec("gamma", p.shape("ci"), p.dtype),
        TensorSpec("beta", p.shape("ci"), p.dtype),
    )


def _compute(p: Parameters, data: te.Tensor, gamma: te.Tensor, beta: te.Tensor) -> te.Tensor:
    return topi.nn.group_norm(data, gamma, beta, p["groups"], 1, [2, 3], EPSILON)


def _nodes(p: Parameters) -> tuple[Node, ...]:
    """Spell it as exporters do below opset 18: an instance normalisation of the groups."""
    ones, zeros = np.ones(p["groups"], p.dtype), np.zeros(p["groups"], p.dtype)
    return (
        Node("Constant", (), "grouped", {"value": np.array([p["n"], p["groups"], -1], np.int64)}),
        Node("Constant", (), "image", {"value": np.array(p.shape("n ci h w"), np.int64)}),
        Node("Constant", (), "column", {"value": np.array([1, p["ci"], 1, 1], np.int64)}),
        Node("Constant", (), "ones", {"value": ones}),
        Node("Constant", (), "zeros", {"value": zeros}),
        Node("Reshape", ("X", "grouped"), "groups"),
        Node("InstanceNormalization", ("groups", "ones", "zeros"), "even", {"epsilon": EPSILON}),
        Node("Reshape", ("even", "image"), "normal"),
        Node("Reshape", ("gamma", "column"), "scale"),
        Node("Reshape", ("beta", "column"), "shift"),
        Node("Mul", ("normal", "scale"), "scaled"),
        Node("Add", ("scaled", "shift"), "out"),
    )


def _evaluate(p: Parameters, data: np.ndarray, gamma: np.ndarray, beta: np.ndarray) -> np.ndarray:
    grouped = data.reshape(p["n"], p["groups"], -1)
    centred = grouped - grouped.mean(axis=-1, keepdims=True)
    variance = np.square(centred).mean(axis=-1, keepdims=True)
    normal = (centred / np.sqrt(variance + EPSILON)).reshape(data.shape)
    return np.asarray(normal * gamma[:, None, None] + beta[:, None, None])


GROUP_NORM = Operator(
    name="group_norm",
    summary="Y[n, ci, h, w] = X normalised over each of groups, times gamma[ci], plus beta[ci]",
    sizes={"n": 1, "ci": 128, "h": 32, "w": 32, "groups": 32},
    inputs=_inputs,
    compute=_compute,
    nodes=_nodes,
    evaluate=_evaluate,
)
OPERATORS = (GROUP_NORM,)
