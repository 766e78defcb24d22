# SPDX-License-Identifier: Apache-2.0
"""Convolutions in NCW and NCHW, as Relax makes them of an ONNX `Conv`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from tvm import te, topi

from kope_tvm.errors import ModelError
from kope_tvm.operators.operator import Node, Operator, Parameters
from kope_tvm.tensor_spec import TensorSpec

_LAYOUTS = {1: ("NCW", "OIW"), 2: ("NCHW", "OIHW")}


def _groups(p: Parameters) -> int:
    groups = p.sizes.get("groups", 1) if "co" in p.sizes else p["ci"]
    for name in {"ci", "co"} & set(p.sizes):
        if p[name] % groups:
            raise ModelError(
                f"{name}={p[name]} of a convolution; expected a multiple of groups={groups}"
            )
    return groups


def _image(p: Parameters) -> tuple[int, ...]:
    return p.shape("h w") if "h" in p.sizes else p.shape("w")


def _dilation(p: Parameters) -> int:
    return p.sizes.get("dilation", 1)


def _inputs(p: Parameters) -> tuple[TensorSpec, ...]:
    image = _image(p)
    channels = (p.sizes.get("co", p["ci"]), p["ci"] // _groups(p))
    return (
        TensorSpec("X", (*p.shape("n ci"), *image), p.dtype),
        TensorSpec("W", (*channels, *[p["kernel"]] * len(image)), p.dtype),
    )


def _bias_inputs(p: Parameters) -> tuple[TensorSpec, ...]:
    return (*_inputs(p), TensorSpec("bias", p.shape("co"), p.dtype))


def _compute(p: Parameters, data: te.Tensor, weight: te.Tensor) -> te.Tensor:
    data_layout, kernel_layout = _LAYOUTS[len(_image(p))]
    return topi.nn.conv(
        data,
        weight,
        stride=p["stride"],
        padding=p["pad"],
        dilation=_dilation(p),
        groups=_groups(p),
        data_layout=data_layout,
        kernel_layout=kernel_layout,
        out_dtype="int32" if "int" in p.dtype else p.dtype,
    )


def _bias_relu(p: Parameters, data: te.Tensor, weight: te.Tensor, bias: te.Tensor) -> te.Tensor:
    column = topi.reshape(bias, (1, p["co"], 1, 1))
    return topi.nn.relu(topi.add(_compute(p, data, weight), column))


def _node(p: Parameters, op_type: str, inputs: tuple[str, ...], output: str) -> Node:
    num_axes = len(_image(p))
    attributes = {
        "kernel_shape": [p["kernel"]] * num_axes,
        "strides": [p["stride"]] * num_axes,
        "pads": [p["pad"]] * 2 * num_axes,
        "dilations": [_dilation(p)] * num_axes,
        "group": _groups(p),
    }
    return Node(op_type, inputs, output, attributes)


def _nodes(p: Parameters) -> tuple[Node, ...]:
    return (_node(p, "Conv", ("X", "W"), "out"),)


def _bias_relu_nodes(p: Parameters) -> tuple[Node, ...]:
    return (_node(p, "Conv", ("X", "W", "bias"), "sum"), Node("Relu", ("sum",), "out"))


def _evaluate(p: Parameters, data: np.ndarray, weight: np.ndarray) -> np.ndarray:
    num_axes, groups, step = len(_image(p)), _groups(p), _dilation(p)
    acc_dtype = np.int32 if data.dtype.kind in "iu" else data.dtype
    padded = np.pad(data.astype(acc_dtype), ((0, 0), (0, 0), *[(p["pad"],) * 2] * num_axes))
    reach = (p["kernel"] - 1) * step + 1
    axes = tuple(range(2, 2 + num_axes))
    windows = np.lib.stride_tricks.sliding_window_view(padded, [reach] * num_axes, axis=axes)
    taken = [slice(None, None, p["stride"])] * num_axes + [slice(None, None, step)] * num_axes
    windows = windows[(slice(None), slice(None), *taken)]
    windows = windows.reshape(windows.shape[0], groups, -1, *windows.shape[2:])
    kernels = weight.astype(acc_dtype).reshape(groups, -1, *weight.shape[1:])
    image, window = "hw"[:num_axes], "xy"[:num_axes]
    found = np.einsum(
        f"ngc{image}{window},goc{window}->ngo{image}", windows, kernels, optimize=True
    )
    return np.asarray(found.reshape(found.shape[0], -1, *found.shape[3:]))


def _bias_relu_reference(
    p: Parameters, data: np.ndarray, weight: np.ndarray, bias: np.ndarray
) -> np.ndarray:
    return np.asarray(np.maximum(_evaluate(p, data, weight) + bias[:, None, None], 0))


CONV2D = Operator(
    name="conv2d",
    summary="Y[n, co, ho, wo] = conv(X[n, ci, h, w], W[co, ci, kernel, kernel])",
    sizes={"n": 1, "ci": 64, "h": 56, "w": 56, "co": 64, "kernel": 3, "stride": 1, "pad": 1},
    inputs=_inputs,
    compute=_compute,
    nodes=_nodes,
    evaluate=_evaluate,
    weights=frozenset({"W"}),
    zero_allowed=frozenset({"pad"}),
)
CONV2D_BIAS_RELU = replace(
    CONV2D,
    name="conv2d_bias_relu",
    summary="Y[n, co, ho, wo] = relu(conv(X[n, ci, h, w], W[co, ci, kernel, kernel]) + bias[co])",
    inputs=_bias_inputs,
    compute=_bias_relu,
    nodes=_bias_relu_nodes,
    evaluate=_bias_relu_reference,
    weights=frozenset({"W", "bias"}),
)
CONV2D_INT8 = replace(
    CONV2D,
    name="conv2d_int8",
    summary="Y[n, co, ho, wo] = conv(X[n, ci, h, w], W[co, ci, kernel, kernel]), 8 bits in, "
    "int32 out",
    nodes=lambda p: (_node(p, "ConvInteger", ("X", "W"), "out"),),
    dtypes=("uint8", "int8"),
)
DILATED_CONV2D = replace(
    CONV2D,
    name="dilated_conv2d",
    summary="Y[n, co, ho, wo] = conv(X[n, ci, h, w], W[co, ci, kernel, kernel]), taps apart",
    sizes={**CONV2D.sizes, "pad": 2, "dilation": 2},
)
GROUP_CONV2D = replace(
    CONV2D,
    name="group_conv2d",
    summary="Y[n, co, ho, wo] = conv(X[n, ci, h, w], W[co, ci / groups, kernel, kernel])",
    sizes={**CONV2D.sizes, "groups": 4},
)
DEPTHWISE_CONV2D = replace(
    CONV2D,
    name="depthwise_conv2d",
    summary="Y[n, ci, ho, wo] = conv(X[n, ci, h, w], W[ci, 1, kernel, kernel]), one a channel",
    sizes={"n": 1, "ci": 32, "h": 112, "w": 112, "kernel": 3, "stride": 2, "pad": 1},
)
CONV1D = replace(
    CONV2D,
    name="conv1d",
    summary="Y[n, co, wo] = conv(X[n, ci, w], W[co, ci, kernel])",
    sizes={"n": 1, "ci": 80, "w": 1500, "co": 64, "kernel": 3, "stride": 1, "pad": 1},
)
OPERATORS = (
    CONV2D,
    CONV2D_BIAS_RELU,
    CONV2D_INT8,
    DILATED_CONV2D,
    GROUP_CONV2D,
    DEPTHWISE_CONV2D,
    CONV1D,
)
