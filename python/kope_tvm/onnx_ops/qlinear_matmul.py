# SPDX-License-Identifier: Apache-2.0
"""QLinearMatMul: a product of bytes in exact integers, scaled back to bytes."""

from __future__ import annotations

from math import prod
from typing import Any

from tvm import relax

from kope_tvm.errors import ModelError
from kope_tvm.onnx_ops.converter import Converter, shape_of
from kope_tvm.onnx_ops.quantized import Granularity, centred, refuse_dtype, requantize

_BYTES = frozenset({"int8", "uint8"})


class QLinearMatMul(Converter):
    """`a @ b` of bytes; `a` has one scale, `b` one in all or one a column."""

    operators = ("ai.onnx::QLinearMatMul",)

    @classmethod
    def _impl_v10(cls, bb: relax.BlockBuilder, inputs: Any, attr: Any, params: Any) -> relax.Expr:
        left, left_scale, left_point, right, right_scale, right_point, scale, point = inputs
        refuse_dtype(left, "a", _BYTES)
        refuse_dtype(right, "b", _BYTES)
        for called, each in (("a_scale", left_scale), ("y_scale", scale)):
            if prod(shape_of(each)) != 1:
                raise ModelError(f"{called} of shape {list(shape_of(each))}: expected one scale")
        factor = relax.op.divide(
            relax.op.multiply(_scalar(left_scale), _columns(right_scale)), _scalar(scale)
        )
        sums = relax.op.matmul(
            centred(left, _scalar(left_point)),
            centred(right, _columns(right_point)),
            out_dtype="int32",
        )
        sums, factor = bb.normalize(sums), bb.normalize(factor)
        granularity = Granularity.of(sums, factor, -1, 0)
        return requantize(bb, sums, factor, point, granularity, str(point.ty.dtype))


def _scalar(value: relax.Expr) -> relax.Expr:
    return value if shape_of(value) == () else relax.op.reshape(value, ())


def _columns(value: relax.Expr) -> relax.Expr:
    shape = shape_of(value)
    if prod(shape) == 1:
        return _scalar(value)
    if len(shape) != 1:
        raise ModelError(f"b_scale or b_zero_point of shape {list(shape)}: expected one a column")
    return value


CONVERTERS = (QLinearMatMul,)
