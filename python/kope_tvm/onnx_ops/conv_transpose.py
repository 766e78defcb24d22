# SPDX-License-Identifier: Apache-2.0
"""ConvTranspose as a convolution of its phases: none of the zeros that a stride puts in between.

A result belongs to one of `stride` phases an axis, and each phase sees every `stride`-th tap of the
kernel only. So all phases are the channels of one convolution, at the size of the input, and the
results are put in order at the end (Shi et al. 2016, arXiv:1609.07009). TVM's own spreads the input
out with zeros and convolves those too, `stride` times an axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from tvm import relax
from tvm.relax.frontend.onnx import onnx_frontend

from kope_tvm.onnx_ops.converter import ANY, Converter, is_constant, is_static, shape_of

_CONV = {1: relax.op.nn.conv1d, 2: relax.op.nn.conv2d}


@dataclass(frozen=True)
class _Axis:
    """One spatial axis: of the input, the kernel and the result."""

    extent: int
    kernel: int
    stride: int
    begin: int
    """What is cut off the results' start."""
    end: int
    more: int
    """Results beyond the last that the kernel reaches."""

    @property
    def taps(self) -> int:
        """Of the kernel, at most, that one phase sees."""
        return -(-self.kernel // self.stride)

    @property
    def length(self) -> int:
        """Of the result."""
        whole = (self.extent - 1) * self.stride + self.kernel + self.more
        return whole - self.begin - self.end

    @property
    def is_covered(self) -> bool:
        """Whether the phases together hold every result."""
        held = (self.extent + self.taps - 1) * self.stride
        return self.length > 0 and self.begin + self.length <= held


class ConvTranspose(Converter):
    """By phases where the weights are known and nothing is grouped or dilated, else TVM's way."""

    operators = ("ai.onnx::ConvTranspose",)
    attributes = {
        "auto_pad": ANY,
        "dilations": ANY,
        "group": ANY,
        "kernel_shape": ANY,
        "output_padding": ANY,
        "output_shape": ANY,
        "pads": ANY,
        "strides": ANY,
    }

    @classmethod
    def _impl_v1(cls, bb: relax.BlockBuilder, inputs: Any, attr: Any, params: Any) -> relax.Expr:
        weight = inputs[1]
        rank = len(shape_of(weight)) - 2
        is_plain = attr.get("group", 1) == 1 and set(attr.get("dilations", (1,))) == {1}
        is_known = is_constant(weight) and is_static(inputs[0]) and rank in _CONV
        is_sized = attr.get("auto_pad", b"NOTSET") == b"NOTSET" and "output_shape" not in attr
        axes = _axes(inputs[0], weight, attr) if is_plain and is_known and is_sized else []
        if not axes or not all(axis.is_covered for axis in axes):
            return onnx_frontend.ConvTranspose._impl_v1(bb, inputs, attr, params)
        return _in_phases(inputs[0], weight.value.numpy(), inputs[2], axes)


def _axes(data: relax.Expr, weight: relax.Expr, attr: Any) -> list[_Axis]:
    extents, kernel = shape_of(data)[2:], shape_of(weight)[2:]
    rank = len(kernel)
    strides = attr.get("strides", (1,) * rank)
    pads = attr.get("pads", (0,) * (2 * rank))
    more = attr.get("output_padding", (0,) * rank)
    each = zip(extents, kernel, strides, pads[:rank], pads[rank:], more, strict=True)
    return [_Axis(*map(int, values)) for values in each]


def _in_phases(
    data: relax.Expr, weight: np.ndarray, bias: relax.Expr | None, axes: Sequence[_Axis]
) -> relax.Expr:
    rank, channels = len(axes), weight.shape[1]
    strides = [axis.stride for axis in axes]
    padding = [axis.taps - 1 for axis in axes] * 2
    kernels = phase_kernels(weight, strides)
    phases = _CONV[rank](data, relax.const(kernels), padding=padding)
    if bias is not None:
        shared = relax.op.reshape(bias, (channels, *(1,) * (2 * rank)))
        spread = relax.op.broadcast_to(shared, (channels, *strides, *(1,) * rank))
        phases = relax.op.add(phases, relax.op.reshape(spread, (1, len(kernels), *(1,) * rank)))
    return _in_order(phases, shape_of(data)[0], channels, axes)


def _in_order(phases: relax.Expr, batch: int, channels: int, axes: Sequence[_Axis]) -> relax.Expr:
    """From phases side by side to results side by side, what is padded cut off."""
    rank, strides = len(axes), [axis.stride for axis in axes]
    sizes = [axis.extent + axis.taps - 1 for axis in axes]
    split = relax.op.reshape(phases, (batch, channels, *strides, *sizes))
    order = [at for axis in range(rank) for at in (2 + rank + axis, 2 + axis)]
    turned = relax.op.permute_dims(split, (0, 1, *order))
    whole = [size * stride for size, stride in zip(sizes, strides, strict=True)]
    result = relax.op.reshape(turned, (batch, channels, *whole))
    if whole == [axis.length for axis in axes]:
        return result
    begin = [axis.begin for axis in axes]
    end = [axis.begin + axis.length for axis in axes]
    return relax.op.strided_slice(result, list(range(2, 2 + rank)), begin, end)


def phase_kernels(weight: np.ndarray, strides: Sequence[int]) -> np.ndarray:
    """[co * phases, ci, taps...] of a kernel [ci, co, k...]: each phase's taps, the last first."""
    inner, outer, *kernel = weight.shape
    taps = [-(-size // stride) for size, stride in zip(kernel, strides, strict=True)]
    whole = [tap * stride for tap, stride in zip(taps, strides, strict=True)]
    missing = [(0, size - own) for size, own in zip(whole, kernel, strict=True)]
    padded = np.pad(weight, [(0, 0), (0, 0), *missing])
    rank = len(kernel)
    pairs = [part for pair in zip(taps, strides, strict=True) for part in pair]
    split = padded.reshape(inner, outer, *pairs)
    taps_at = [2 + 2 * axis for axis in range(rank)]
    phases_at = [3 + 2 * axis for axis in range(rank)]
    turned = split.transpose(1, *phases_at, 0, *taps_at)
    flipped = np.flip(turned, axis=tuple(range(2 + rank, 2 + 2 * rank)))
    return np.ascontiguousarray(flipped.reshape(outer * prod(strides), inner, *taps))


CONVERTERS = (ConvTranspose,)
