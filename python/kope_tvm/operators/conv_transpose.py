# SPDX-License-Identifier: Apache-2.0
"""Transposed convolution in NCHW, which decoders and generators upsample with."""

from __future__ import annotations

import numpy as np
from tvm import te, topi

from kope_tvm.operators.operator import Node, Operator, Parameters
from kope_tvm.tensor_spec import TensorSpec


def _inputs(p: Parameters) -> tuple[TensorSpec, ...]:
    weight = (*p.shape("ci co"), p["kernel"], p["kernel"])
    return (TensorSpec("X", p.shape("n ci h w"), p.dtype), TensorSpec("W", weight, p.dtype))


def _compute(p: Parameters, data: te.Tensor, weight: te.Tensor) -> te.Tensor:
    strides, padding = (p["stride"],) * 2, (p["pad"],) * 2
    return topi.nn.conv2d_transpose_nchw(data, weight, strides, padding, p.dtype, (0, 0))


def _nodes(p: Parameters) -> tuple[Node, ...]:
    attributes = {
        "kernel_shape": [p["kernel"]] * 2,
        "strides": [p["stride"]] * 2,
        "pads": [p["pad"]] * 4,
    }
    return (Node("ConvTranspose", ("X", "W"), "out", attributes),)


def _evaluate(p: Parameters, data: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Every input element adds the kernel, times itself, to the output."""
    stride, kernel, pad = p["stride"], p["kernel"], p["pad"]
    rows, columns = ((extent - 1) * stride + kernel for extent in p.shape("h w"))
    out = np.zeros((p["n"], p["co"], rows, columns), data.dtype)
    for down in range(kernel):
        for across in range(kernel):
            added = np.einsum("nihw,io->nohw", data, weight[:, :, down, across], optimize=True)
            last = (down + stride * p["h"], across + stride * p["w"])
            out[:, :, down : last[0] : stride, across : last[1] : stride] += added
    return out[:, :, pad : rows - pad, pad : columns - pad]


CONV_TRANSPOSE2D = Operator(
    name="conv_transpose2d",
    summary="Y[n, co, ho, wo] = transposed conv(X[n, ci, h, w], W[ci, co, kernel, kernel])",
    sizes={"n": 1, "ci": 32, "h": 28, "w": 28, "co": 32, "kernel": 4, "stride": 2, "pad": 1},
    inputs=_inputs,
    compute=_compute,
    nodes=_nodes,
    evaluate=_evaluate,
    weights=frozenset({"W"}),
    zero_allowed=frozenset({"pad"}),
)
OPERATORS = (CONV_TRANSPOSE2D,)
