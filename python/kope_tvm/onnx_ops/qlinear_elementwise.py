# SPDX-License-Identifier: Apache-2.0
"""Elementwise operators on bytes of com.microsoft: dequantised, computed in float32, quantised."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from tvm import relax

from kope_tvm.onnx_ops.converter import ANY, Converter, dtype_of
from kope_tvm.onnx_ops.quantized import Granularity, dequantize, quantize

_ALL = Granularity(None)


def _floats(
    bb: relax.BlockBuilder, data: relax.Expr, scale: relax.Expr, point: relax.Expr | None
) -> relax.Expr:
    return dequantize(bb, data, scale, point, _ALL, "float32")


class _Binary(Converter):
    """Inputs A, A_scale, A_zero_point, B, B_scale, B_zero_point, C_scale, C_zero_point."""

    compute: ClassVar[Callable[[relax.Expr, relax.Expr], relax.Expr]]

    @classmethod
    def _impl_v1(cls, bb: relax.BlockBuilder, inputs: Any, attr: Any, params: Any) -> relax.Expr:
        left, right = (_floats(bb, *inputs[at : at + 3]) for at in (0, 3))
        found = bb.normalize(cls.compute(left, right))
        return quantize(bb, found, inputs[6], inputs[7], _ALL, dtype_of(inputs[0]))


class QLinearAdd(_Binary):
    """`A + B`."""

    operators = ("com.microsoft::QLinearAdd",)
    compute = relax.op.add


class QLinearMul(_Binary):
    """`A * B`."""

    operators = ("com.microsoft::QLinearMul",)
    compute = relax.op.multiply


class _Unary(Converter):
    """Inputs X, X_scale, X_zero_point, Y_scale, Y_zero_point."""

    @classmethod
    def _compute(cls, value: relax.Expr, attr: Any) -> relax.Expr:
        raise NotImplementedError

    @classmethod
    def _impl_v1(cls, bb: relax.BlockBuilder, inputs: Any, attr: Any, params: Any) -> relax.Expr:
        found = bb.normalize(cls._compute(_floats(bb, *inputs[:3]), attr))
        return quantize(bb, found, inputs[3], inputs[4], _ALL, dtype_of(inputs[0]))


class QLinearSigmoid(_Unary):
    """`sigmoid(X)`."""

    operators = ("com.microsoft::QLinearSigmoid",)

    @classmethod
    def _compute(cls, value: relax.Expr, attr: Any) -> relax.Expr:
        return relax.op.sigmoid(value)


class QLinearLeakyRelu(_Unary):
    """`X`, or `alpha * X` where negative."""

    operators = ("com.microsoft::QLinearLeakyRelu",)
    attributes = {"alpha": ANY}

    @classmethod
    def _compute(cls, value: relax.Expr, attr: Any) -> relax.Expr:
        return relax.op.nn.leakyrelu(value, attr.get("alpha", 0.01))


class QLinearConcat(Converter):
    """Inputs Y_scale, Y_zero_point, then data, scale and zero point of each part."""

    operators = ("com.microsoft::QLinearConcat",)
    attributes = {"axis": ANY}

    @classmethod
    def _impl_v1(cls, bb: relax.BlockBuilder, inputs: Any, attr: Any, params: Any) -> relax.Expr:
        dtype = dtype_of(inputs[1])
        parts = [
            quantize(bb, _floats(bb, *inputs[at : at + 3]), inputs[0], inputs[1], _ALL, dtype)
            for at in range(2, len(inputs), 3)
        ]
        return relax.op.concat(parts, attr["axis"])


CONVERTERS = (QLinearAdd, QLinearMul, QLinearSigmoid, QLinearLeakyRelu, QLinearConcat)
