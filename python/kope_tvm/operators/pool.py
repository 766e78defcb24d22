# SPDX-License-Identifier: Apache-2.0
"""Pooling windows over NCHW images."""

from __future__ import annotations

import numpy as np
from tvm import te, topi

from kope_tvm.operators.operator import Node, Operator, Parameters
from kope_tvm.tensor_spec import TensorSpec


def _inputs(p: Parameters) -> tuple[TensorSpec, ...]:
    return (TensorSpec("X", p.shape("n ci h w"), p.dtype),)


def _pool(p: Parameters, data: te.Tensor, kind: str) -> te.Tensor:
    sides = ((p["kernel"],) * 2, (p["stride"],) * 2, (1, 1), (p["pad"],) * 4)
    return topi.nn.pool2d(data, *sides, kind, count_include_pad=False)


def _node(p: Parameters, op_type: str) -> Node:
    attributes = {
        "kernel_shape": [p["kernel"]] * 2,
        "strides": [p["stride"]] * 2,
        "pads": [p["pad"]] * 4,
    }
    return Node(op_type, ("X",), "out", attributes)


def _windows(p: Parameters, data: np.ndarray, outside: float) -> np.ndarray:
    """A window an output element, its elements last."""
    pad, stride = p["pad"], p["stride"]
    sides = ((0, 0), (0, 0), (pad, pad), (pad, pad))
    padded = np.pad(data, sides, constant_values=outside)
    found = np.lib.stride_tricks.sliding_window_view(padded, [p["kernel"]] * 2, axis=(2, 3))
    return found[:, :, ::stride, ::stride].reshape(*found[:, :, ::stride, ::stride].shape[:4], -1)


def _average(p: Parameters, data: np.ndarray) -> np.ndarray:
    counts = _windows(p, np.ones_like(data), 0.0).sum(axis=-1)
    return np.asarray(_windows(p, data, 0.0).sum(axis=-1) / counts)


_SIZES = {"n": 1, "ci": 64, "h": 112, "w": 112, "kernel": 3, "stride": 2, "pad": 1}

MAX_POOL2D = Operator(
    name="max_pool2d",
    summary="Y[n, ci, ho, wo] = max of the kernel x kernel windows of X[n, ci, h, w]",
    sizes=_SIZES,
    inputs=_inputs,
    compute=lambda p, x: _pool(p, x, "max"),
    nodes=lambda p: (_node(p, "MaxPool"),),
    evaluate=lambda p, x: _windows(p, x, -np.inf).max(axis=-1),
    zero_allowed=frozenset({"pad"}),
)
AVG_POOL2D = Operator(
    name="avg_pool2d",
    summary="Y[n, ci, ho, wo] = mean of the kernel x kernel windows of X[n, ci, h, w]",
    sizes=_SIZES,
    inputs=_inputs,
    compute=lambda p, x: _pool(p, x, "avg"),
    nodes=lambda p: (_node(p, "AveragePool"),),
    evaluate=_average,
    zero_allowed=frozenset({"pad"}),
)
GLOBAL_AVG_POOL = Operator(
    name="global_avg_pool",
    summary="Y[n, ci, 1, 1] = mean of X[n, ci, h, w] over h and w",
    sizes={"n": 1, "ci": 512, "h": 28, "w": 28},
    inputs=_inputs,
    compute=lambda _, x: topi.nn.global_pool(x, "avg"),
    nodes=lambda _: (Node("GlobalAveragePool", ("X",), "out"),),
    evaluate=lambda _, x: x.mean(axis=(2, 3), keepdims=True),
)
OPERATORS = (MAX_POOL2D, AVG_POOL2D, GLOBAL_AVG_POOL)
