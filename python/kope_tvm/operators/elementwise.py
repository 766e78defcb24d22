# SPDX-License-Identifier: Apache-2.0
"""Elementwise chains."""

from __future__ import annotations

from math import erf, sqrt

import numpy as np
from tvm import te, tirx, topi

from kope_tvm.operators.operator import Node, Operator, Parameters
from kope_tvm.tensor_spec import TensorSpec


def _inputs(p: Parameters) -> tuple[TensorSpec, ...]:
    return (TensorSpec("X", p.shape("m n"), p.dtype),)


def _bias_inputs(p: Parameters) -> tuple[TensorSpec, ...]:
    return (*_inputs(p), TensorSpec("bias", p.shape("n"), p.dtype))


def _gelu(p: Parameters, data: te.Tensor) -> te.Tensor:
    """Make the blocks that Relax's `gelu` legalizes to."""
    scaled = topi.multiply(data, tirx.const(1 / sqrt(2), p.dtype))
    half = topi.multiply(topi.erf(scaled), tirx.const(0.5, p.dtype))
    return topi.multiply(data, topi.add(tirx.const(0.5, p.dtype), half))


def _gelu_nodes(p: Parameters) -> tuple[Node, ...]:
    """Spell it as exporters do, so that ONNX Runtime recognises and fuses it."""
    return (
        Node("Constant", (), "root2", {"value": np.array(sqrt(2), p.dtype)}),
        Node("Constant", (), "one", {"value": np.array(1, p.dtype)}),
        Node("Constant", (), "half", {"value": np.array(0.5, p.dtype)}),
        Node("Div", ("X", "root2"), "scaled"),
        Node("Erf", ("scaled",), "erf"),
        Node("Add", ("erf", "one"), "shifted"),
        Node("Mul", ("X", "shifted"), "doubled"),
        Node("Mul", ("doubled", "half"), "out"),
    )


def _gelu_reference(_: Parameters, data: np.ndarray) -> np.ndarray:
    erfs = np.vectorize(erf, otypes=[data.dtype])(data / sqrt(2))
    return np.asarray(data * (1 + erfs) / 2)


GELU = Operator(
    name="gelu",
    summary="Y[m, n] = X / 2 * (1 + erf(X / sqrt(2)))",
    sizes={"m": 512, "n": 3072},
    inputs=_inputs,
    compute=_gelu,
    nodes=_gelu_nodes,
    evaluate=_gelu_reference,
    dtypes=("float32",),
)
RELU_CHAIN = Operator(
    name="relu_chain",
    summary="Y[m, n] = relu(X[m, n] + bias[n]) * X[m, n]",
    sizes={"m": 512, "n": 3072},
    inputs=_bias_inputs,
    compute=lambda _, x, bias: topi.multiply(topi.nn.relu(topi.add(x, bias)), x),
    nodes=lambda _: (
        Node("Add", ("X", "bias"), "shifted"),
        Node("Relu", ("shifted",), "rectified"),
        Node("Mul", ("rectified", "X"), "out"),
    ),
    evaluate=lambda _, x, bias: np.maximum(x + bias, 0) * x,
)
SILU_MUL = Operator(
    name="silu_mul",
    summary="Y[m, n] = gate * sigmoid(gate) * up, as gated feed-forward layers have it",
    sizes={"m": 128, "n": 2816},
    inputs=lambda p: (
        TensorSpec("gate", p.shape("m n"), p.dtype),
        TensorSpec("up", p.shape("m n"), p.dtype),
    ),
    compute=lambda _, gate, up: topi.multiply(topi.multiply(gate, topi.sigmoid(gate)), up),
    nodes=lambda _: (
        Node("Sigmoid", ("gate",), "open"),
        Node("Mul", ("gate", "open"), "silu"),
        Node("Mul", ("silu", "up"), "out"),
    ),
    evaluate=lambda _, gate, up: gate / (1 + np.exp(-gate)) * up,
    dtypes=("float32",),
)
RELU = Operator(
    name="relu",
    summary="Y[m, n] = max(X[m, n], 0)",
    sizes={"m": 512, "n": 3072},
    inputs=_inputs,
    compute=lambda _, x: topi.nn.relu(x),
    nodes=lambda _: (Node("Relu", ("X",), "out"),),
    evaluate=lambda _, x: np.maximum(x, 0),
)
LOG = Operator(
    name="log",
    summary="Y[m, n] = log(X[m, n])",
    sizes={"m": 512, "n": 3072},
    inputs=_inputs,
    compute=lambda _, x: topi.log(x),
    nodes=lambda _: (Node("Log", ("X",), "out"),),
    evaluate=lambda _, x: np.log(x),
    dtypes=("float32",),
)
BIAS_ADD = Operator(
    name="bias_add",
    summary="Y[m, n] = X[m, n] + bias[n]",
    sizes={"m": 512, "n": 3072},
    inputs=_bias_inputs,
    compute=lambda _, x, bias: topi.add(x, bias),
    nodes=lambda _: (Node("Add", ("X", "bias"), "out"),),
    evaluate=lambda _, x, bias: x + bias,
)
OPERATORS = (GELU, RELU_CHAIN, SILU_MUL, RELU, LOG, BIAS_ADD)
