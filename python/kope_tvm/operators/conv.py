# SPDX-License-Identifier: Apache-2.0
"""Convolutions in NCHW, as Relax makes them of an ONNX `Conv`."""

from __future__ import annotations

import numpy as np
from tvm import te, topi

from kope_tvm.operators.operator import Node, Operator, Parameters
from kope_tvm.tensor_spec import TensorSpec


def _groups(p: Parameters) -> int:
    return p["ci"] if "co" not in p.sizes else 1


def _inputs(p: Parameters) -> tuple[TensorSpec, ...]:
    weight = (p.sizes.get("co", p["ci"]), p["ci"] // _groups(p), p["kernel"], p["kernel"])
    return (TensorSpec("X", p.shape("n ci h w"), p.dtype), TensorSpec("W", weight, p.dtype))


def _compute(p: Parameters, data: te.Tensor, weight: te.Tensor) -> te.Tensor:
    return topi.nn.conv(
        data,
        weight,
        stride=p["stride"],
        padding=p["pad"],
        dilation=1,
        groups=_groups(p),
        data_layout="NCHW",
        kernel_layout="OIHW",
        out_dtype=p.dtype,
    )


def _nodes(p: Parameters) -> tuple[Node, ...]:
    attributes = {
        "kernel_shape": [p["kernel"]] * 2,
        "strides": [p["stride"]] * 2,
        "pads": [p["pad"]] * 4,
        "group": _groups(p),
    }
    return (Node("Conv", ("X", "W"), "out", attributes),)


def _evaluate(p: Parameters, data: np.ndarray, weight: np.ndarray) -> np.ndarray:
    pad, stride = p["pad"], p["stride"]
    padded = np.pad(data, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, [p["kernel"]] * 2, axis=(2, 3))
    windows = windows[:, :, ::stride, ::stride]
    if _groups(p) > 1:
        return np.asarray(np.einsum("nchwxy,cxy->nchw", windows, weight[:, 0], optimize=True))
    return np.asarray(np.einsum("nchwxy,ocxy->nohw", windows, weight, optimize=True))


CONV2D = Operator(
    name="conv2d",
    summary="Y[n, co, ho, wo] = conv(X[n, ci, h, w], W[co, ci, kernel, kernel])",
    sizes={"n": 1, "ci": 64, "h": 56, "w": 56, "co": 64, "kernel": 3, "stride": 1, "pad": 1},
    inputs=_inputs,
    compute=_compute,
    nodes=_nodes,
    evaluate=_evaluate,
    zero_allowed=frozenset({"pad"}),
)
DEPTHWISE_CONV2D = Operator(
    name="depthwise_conv2d",
    summary="Y[n, ci, ho, wo] = conv(X[n, ci, h, w], W[ci, 1, kernel, kernel]), one a channel",
    sizes={"n": 1, "ci": 32, "h": 112, "w": 112, "kernel": 3, "stride": 2, "pad": 1},
    inputs=_inputs,
    compute=_compute,
    nodes=_nodes,
    evaluate=_evaluate,
    zero_allowed=frozenset({"pad"}),
)
OPERATORS = (CONV2D, DEPTHWISE_CONV2D)
