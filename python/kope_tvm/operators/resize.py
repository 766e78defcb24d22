# SPDX-License-Identifier: Apache-2.0
"""NCHW images made larger by a whole factor."""

from __future__ import annotations

import numpy as np
from tvm import te, topi

from kope_tvm.operators.operator import Node, Operator, Parameters
from kope_tvm.tensor_spec import TensorSpec


def _inputs(p: Parameters) -> tuple[TensorSpec, ...]:
    return (TensorSpec("X", p.shape("n ci h w"), p.dtype),)


def _resized(p: Parameters, data: te.Tensor, method: str, mode: str, rounding: str) -> te.Tensor:
    size = (p["h"] * p["scale"], p["w"] * p["scale"])
    return topi.image.resize2d(
        data,
        [0.0] * 4,
        size,
        layout="NCHW",
        method=method,
        coordinate_transformation_mode=mode,
        rounding_method=rounding,
        out_dtype=p.dtype,
    )


def _nodes(p: Parameters, **attributes: str) -> tuple[Node, ...]:
    scales = np.array([1, 1, p["scale"], p["scale"]], np.float32)
    return (
        Node("Constant", (), "scales", {"value": scales}),
        Node("Resize", ("X", "", "scales"), "out", attributes),
    )


def _bilinear(p: Parameters, data: np.ndarray) -> np.ndarray:
    return _lerp(_lerp(data, p["scale"], axis=2), p["scale"], axis=3)


def _lerp(data: np.ndarray, scale: int, axis: int) -> np.ndarray:
    """Between the centres of elements, the outer ones continued."""
    extent = data.shape[axis]
    at = (np.arange(extent * scale) + 0.5) / scale - 0.5
    low = np.floor(at).astype(int)
    share = np.asarray(at - low, data.dtype).reshape([-1 if i == axis else 1 for i in range(4)])
    left = data.take(low.clip(0, extent - 1), axis=axis)
    right = data.take((low + 1).clip(0, extent - 1), axis=axis)
    return np.asarray(left * (1 - share) + right * share)


_SIZES = {"n": 1, "ci": 32, "h": 64, "w": 64, "scale": 2}

RESIZE_NEAREST = Operator(
    name="resize_nearest",
    summary="Y[n, ci, h * scale, w * scale] = X[n, ci, h, w], every element repeated",
    sizes=_SIZES,
    inputs=_inputs,
    compute=lambda p, x: _resized(p, x, "nearest_neighbor", "asymmetric", "floor"),
    nodes=lambda p: _nodes(
        p, mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"
    ),
    evaluate=lambda p, x: x.repeat(p["scale"], axis=2).repeat(p["scale"], axis=3),
)
RESIZE_BILINEAR = Operator(
    name="resize_bilinear",
    summary="Y[n, ci, h * scale, w * scale] = X[n, ci, h, w], interpolated between centres",
    sizes=_SIZES,
    inputs=_inputs,
    compute=lambda p, x: _resized(p, x, "linear", "half_pixel", ""),
    nodes=lambda p: _nodes(p, mode="linear", coordinate_transformation_mode="half_pixel"),
    evaluate=_bilinear,
)
OPERATORS = (RESIZE_NEAREST, RESIZE_BILINEAR)
