# SPDX-License-Identifier: Apache-2.0
"""QuantizeLinear and DequantizeLinear: by tensor, by axis (where TVM's own are wrong), by block."""

from __future__ import annotations

from typing import Any

from onnx import TensorProto
from tvm import relax
from tvm.relax.frontend.onnx.onnx_frontend import get_type

from kope_tvm.onnx_ops.converter import ANY, Converter, dtype_of
from kope_tvm.onnx_ops.quantized import (
    QUANTIZED,
    Granularity,
    dequantize,
    quantize,
    refuse_dtype,
)

_FLOATS = frozenset({"float32", "float16"})
_INTEGERS = (
    0,
    TensorProto.INT8,
    TensorProto.UINT8,
    TensorProto.INT16,
    TensorProto.UINT16,
)


def _granularity(inputs: Any, attr: Any) -> Granularity:
    return Granularity.of(inputs[0], inputs[1], attr.get("axis", 1), attr.get("block_size", 0))


class DequantizeLinear(Converter):
    """`(x - zero_point) * scale`."""

    operators = ("ai.onnx::DequantizeLinear", "com.microsoft::DequantizeLinear")
    attributes = {
        "axis": ANY,
        "block_size": ANY,
        "output_dtype": (0, TensorProto.FLOAT, TensorProto.FLOAT16),
    }

    @classmethod
    def _impl_v10(cls, bb: relax.BlockBuilder, inputs: Any, attr: Any, params: Any) -> relax.Expr:
        refuse_dtype(inputs[0], "data", QUANTIZED)
        refuse_dtype(inputs[1], "scale", _FLOATS)
        given = attr.get("output_dtype", 0)
        out_dtype = get_type(given) if given else dtype_of(inputs[1])
        return dequantize(
            bb, inputs[0], inputs[1], inputs[2], _granularity(inputs, attr), out_dtype
        )


class QuantizeLinear(Converter):
    """`x / scale` rounded, plus the zero point, clipped; uint8 where nothing says otherwise."""

    operators = ("ai.onnx::QuantizeLinear", "com.microsoft::QuantizeLinear")
    attributes = {
        "axis": ANY,
        "block_size": ANY,
        "output_dtype": _INTEGERS,
        "saturate": ANY,
        "precision": (0, TensorProto.FLOAT),
    }

    @classmethod
    def _impl_v10(cls, bb: relax.BlockBuilder, inputs: Any, attr: Any, params: Any) -> relax.Expr:
        refuse_dtype(inputs[0], "data", _FLOATS)
        given = attr.get("output_dtype", 0)
        out_dtype = get_type(given) if given else "uint8"
        if inputs[2] is not None:
            refuse_dtype(inputs[2], "zero point", QUANTIZED - {"int32"})
            out_dtype = dtype_of(inputs[2])
        return quantize(bb, inputs[0], inputs[1], inputs[2], _granularity(inputs, attr), out_dtype)


CONVERTERS = (DequantizeLinear, QuantizeLinear)
