# SPDX-License-Identifier: Apache-2.0
"""Softmax and normalisations over the last axis."""

from __future__ import annotations

import numpy as np
from tvm import topi

from kope_tvm.operators.operator import Node, Operator, Parameters
from kope_tvm.tensor_spec import TensorSpec

EPSILON = 1e-5


def _data(p: Parameters) -> TensorSpec:
    return TensorSpec("X", p.shape("m n"), p.dtype)


def _weight(p: Parameters, name: str) -> TensorSpec:
    return TensorSpec(name, p.shape("n"), p.dtype)


def _softmax(_: Parameters, data: np.ndarray) -> np.ndarray:
    shifted = np.exp(data - data.max(axis=-1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=-1, keepdims=True))


def _layernorm(_: Parameters, data: np.ndarray, gamma: np.ndarray, beta: np.ndarray) -> np.ndarray:
    centred = data - data.mean(axis=-1, keepdims=True)
    variance = np.square(centred).mean(axis=-1, keepdims=True)
    return np.asarray(centred / np.sqrt(variance + EPSILON) * gamma + beta)


def _rmsnorm(_: Parameters, data: np.ndarray, gamma: np.ndarray) -> np.ndarray:
    mean = np.square(data).mean(axis=-1, keepdims=True)
    return np.asarray(data / np.sqrt(mean + EPSILON) * gamma)


def _rmsnorm_nodes(p: Parameters) -> tuple[Node, ...]:
    """Spell it as exporters do, so that ONNX Runtime recognises and fuses it."""
    return (
        Node("Constant", (), "two", {"value": np.array(2, p.dtype)}),
        Node("Constant", (), "epsilon", {"value": np.array(EPSILON, p.dtype)}),
        Node("Pow", ("X", "two"), "squared"),
        Node("ReduceMean", ("squared",), "mean", {"axes": [-1]}),
        Node("Add", ("mean", "epsilon"), "shifted"),
        Node("Sqrt", ("shifted",), "root"),
        Node("Div", ("X", "root"), "scaled"),
        Node("Mul", ("scaled", "gamma"), "out"),
    )


SOFTMAX = Operator(
    name="softmax",
    summary="Y[m, n] = softmax(X[m, n]) over n",
    sizes={"m": 512, "n": 1024},
    inputs=lambda p: (_data(p),),
    compute=lambda _, x: topi.nn.softmax(x, axis=-1),
    nodes=lambda _: (Node("Softmax", ("X",), "out", {"axis": -1}),),
    evaluate=_softmax,
)
LOG_SOFTMAX = Operator(
    name="log_softmax",
    summary="Y[m, n] = log(softmax(X[m, n])) over n",
    sizes={"m": 512, "n": 1024},
    inputs=lambda p: (_data(p),),
    compute=lambda _, x: topi.nn.log_softmax(x),
    nodes=lambda _: (Node("LogSoftmax", ("X",), "out", {"axis": -1}),),
    evaluate=lambda p, x: np.log(_softmax(p, x)),
    dtypes=("float32",),
)
LAYERNORM = Operator(
    name="layernorm",
    summary="Y[m, n] = layernorm(X[m, n]) over n, times gamma[n], plus beta[n]",
    sizes={"m": 512, "n": 768},
    inputs=lambda p: (_data(p), _weight(p, "gamma"), _weight(p, "beta")),
    compute=lambda _, x, gamma, beta: topi.nn.layer_norm(x, gamma, beta, [-1], EPSILON),
    nodes=lambda _: (
        Node(
            "LayerNormalization",
            ("X", "gamma", "beta"),
            "out",
            {"axis": -1, "epsilon": EPSILON},
        ),
    ),
    evaluate=_layernorm,
)
RMSNORM = Operator(
    name="rmsnorm",
    summary="Y[m, n] = X[m, n] / rms(X) over n, times gamma[n]",
    sizes={"m": 512, "n": 768},
    inputs=lambda p: (_data(p), _weight(p, "gamma")),
    compute=lambda _, x, gamma: topi.nn.rms_norm(x, gamma, [-1], EPSILON),
    nodes=_rmsnorm_nodes,
    evaluate=_rmsnorm,
)
OPERATORS = (SOFTMAX, LOG_SOFTMAX, LAYERNORM, RMSNORM)
