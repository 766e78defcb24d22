# SPDX-License-Identifier: Apache-2.0
"""QLinearConv and ConvInteger: a convolution of bytes in exact integers."""

from __future__ import annotations

from math import prod
from typing import Any

from tvm import relax

from kope_tvm.errors import ModelError
from kope_tvm.onnx_ops.converter import ANY, Converter, dtype_of, shape_of
from kope_tvm.onnx_ops.quantized import Granularity, centred, refuse_dtype, requantize
from kope_tvm.onnx_ops.window import Window

_BYTES = frozenset({"int8", "uint8"})
_ATTRIBUTES = {
    "auto_pad": ANY,
    "dilations": ANY,
    "group": ANY,
    "kernel_shape": ANY,
    "pads": ANY,
    "strides": ANY,
}
_CONV = {1: relax.op.nn.conv1d, 2: relax.op.nn.conv2d, 3: relax.op.nn.conv3d}


def _sums(
    data: relax.Expr,
    weight: relax.Expr,
    points: tuple[relax.Expr | None, relax.Expr | None],
    attr: Any,
) -> relax.Expr:
    """The convolution in int32; padding stands for the zero point, which is 0 once subtracted."""
    refuse_dtype(data, "x", _BYTES)
    refuse_dtype(weight, "w", _BYTES)
    kernel = shape_of(weight)[2:]
    window = Window.of(attr, shape_of(data)[2:], kernel)
    return _CONV[len(kernel)](
        centred(data, _by_channel(points[0], 0)),
        centred(weight, _by_channel(points[1], len(kernel) + 1)),
        strides=window.strides,
        padding=window.pads,
        dilation=window.dilations,
        groups=attr.get("group", 1),
        out_dtype="int32",
    )


def _by_channel(value: relax.Expr | None, trailing: int) -> relax.Expr | None:
    """A scalar, or a vector that stands before `trailing` axes."""
    if value is None:
        return None
    shape = shape_of(value)
    if prod(shape) == 1:
        return relax.op.reshape(value, ())
    if trailing == 0 or len(shape) != 1:
        raise ModelError(f"zero point of shape {list(shape)}; expected a single one")
    return relax.op.reshape(value, (*shape, *(1,) * trailing))


class ConvInteger(Converter):
    """Sums in int32."""

    operators = ("ai.onnx::ConvInteger",)
    attributes = _ATTRIBUTES

    @classmethod
    def _impl_v10(cls, bb: relax.BlockBuilder, inputs: Any, attr: Any, params: Any) -> relax.Expr:
        return _sums(inputs[0], inputs[1], (inputs[2], inputs[3]), attr)


class QLinearConv(Converter):
    """Sums plus the int32 bias, scaled back to bytes; the weights' scale may be one a channel."""

    operators = ("ai.onnx::QLinearConv",)
    attributes = _ATTRIBUTES

    @classmethod
    def _impl_v10(cls, bb: relax.BlockBuilder, inputs: Any, attr: Any, params: Any) -> relax.Expr:
        data, data_scale, data_point, weight, weight_scale, weight_point, scale, point = inputs[:8]
        sums = _sums(data, weight, (data_point, weight_point), attr)
        bias = inputs[8]
        if bias is not None:
            trailing = (1,) * (len(shape_of(weight)) - 2)
            sums = relax.op.add(sums, relax.op.reshape(bias, (*shape_of(bias), *trailing)))
        one = [relax.op.reshape(each, ()) for each in (data_scale, scale)]
        factor = relax.op.divide(relax.op.multiply(one[0], weight_scale), one[1])
        sums, factor = bb.normalize(sums), bb.normalize(factor)
        granularity = Granularity.of(sums, factor, 1, 0)
        return requantize(bb, sums, factor, point, granularity, dtype_of(point))


CONVERTERS = (ConvInteger, QLinearConv)
