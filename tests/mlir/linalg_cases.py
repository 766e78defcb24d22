# SPDX-License-Identifier: Apache-2.0
"""Linalg functions on files or in one line, with what they compute, by numpy in float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def windows(image: Array, stride: int, size: int) -> Array:
    """[n, h, w, c] -> [n, oh, ow, c, kh, kw]."""
    found = np.lib.stride_tricks.sliding_window_view(image, (size, size), axis=(1, 2))
    kept: Array = found[:, ::stride, ::stride]
    return kept


def conv2d_nhwc(image: Array, weight: Array, bias: Array) -> Array:
    padded = np.pad(image, ((0, 0), (1, 1), (1, 1), (0, 0)))
    product = np.einsum("nhwcij,ijco->nhwo", windows(padded, 1, 3), weight)
    kept: Array = np.maximum(product + bias, 0)
    return kept


def depthwise(image: Array, weight: Array) -> Array:
    found: Array = np.einsum("nhwcij,ijc->nhwc", windows(image, 2, 3), weight)
    return found


def softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def layernorm(x: Array, gamma: Array, beta: Array) -> Array:
    centred = x - x.mean(axis=1, keepdims=True)
    variance = np.square(centred).mean(axis=1, keepdims=True)
    return np.asarray(centred / np.sqrt(variance + 1e-5) * gamma + beta)


def elementwise_reduction(x: Array, scale: Array, shift: Array) -> Array:
    return np.asarray(np.sqrt(np.maximum(x * scale + shift, 0)).sum(axis=0))


FILES: dict[str, Callable[..., Array]] = {
    "batch_matmul": np.matmul,
    "conv2d_nhwc": conv2d_nhwc,
    "depthwise": depthwise,
    "elementwise_reduction": elementwise_reduction,
    "layernorm": layernorm,
    "matmul": np.matmul,
    "softmax": softmax,
}
"""By the name of the file of the suite `mlir`."""


def inputs(shapes: Sequence[tuple[int, ...]], seed: int = 0) -> list[Array]:
    """Normal float32 arrays."""
    random = np.random.default_rng(seed)
    return [random.standard_normal(shape).astype(np.float32) for shape in shapes]


def exact(compute: Callable[..., Array], arrays: Sequence[Array]) -> Array:
    """What a function computes, in float64."""
    return compute(*(array.astype(np.float64) for array in arrays))
