# SPDX-License-Identifier: Apache-2.0
"""Split by sizes that only the run knows; by constant ones TVM's own does it, unless one is 0."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import relax, tirx
from tvm.relax.frontend.onnx.onnx_frontend import Split as StockSplit

from kope_tvm.errors import ModelError
from kope_tvm.onnx_ops.converter import ANY, Converter, is_constant, result, shape_of


class Split(Converter):
    """Parts along one axis; the sizes must add up to its extent, which is checked when run."""

    operators = ("ai.onnx::Split",)
    attributes = {"axis": ANY, "num_outputs": ANY, "split": ANY}

    @classmethod
    def _impl_v1(cls, bb: relax.BlockBuilder, inputs: Any, attr: Any, params: Any) -> relax.Expr:
        return StockSplit._impl_v1(bb, inputs, attr, params)

    @classmethod
    def _impl_v13(cls, bb: relax.BlockBuilder, inputs: Any, attr: Any, params: Any) -> relax.Expr:
        sizes = inputs[1]
        if sizes is None:
            return _even(bb, inputs[0], attr)
        if is_constant(sizes):
            extents = [int(size) for size in sizes.value.numpy()]
            if 0 in extents:  # TVM's operator has no empty parts.
                return result(_slices(bb, inputs[0], attr.get("axis", 0), extents), attr)
            return StockSplit._impl_v13(bb, inputs, attr, params)
        return _at_run_time(bb, inputs[0], sizes, attr)


def _even(bb: relax.BlockBuilder, data: relax.Expr, attr: Any) -> relax.Expr:
    """Equal parts of which the last may be smaller."""
    axis, count = attr.get("axis", 0), attr["tvm_custom"]["num_outputs"]
    part = -(-shape_of(data)[axis] // count)
    return relax.op.split(data, [part * number for number in range(1, count)], axis)


def _at_run_time(
    bb: relax.BlockBuilder, data: relax.Expr, sizes: relax.Expr, attr: Any
) -> relax.Expr:
    shape, axis = shape_of(data), attr.get("axis", 0)
    axis += len(shape) if axis < 0 else 0
    (count,) = shape_of(sizes)
    if count != attr["tvm_custom"]["num_outputs"]:
        raise ModelError(f"{count} sizes for {attr['tvm_custom']['num_outputs']} outputs")
    extents: list[Any] = [tirx.Var(f"size_{number}", "int64") for number in range(count - 1)]
    extents.append(shape[axis] - sum(extents, start=tirx.IntImm("int64", 0)))
    found = bb.emit(relax.op.tensor_to_shape(sizes))
    bb.match_cast(found, relax.ShapeType(extents))
    return result(_slices(bb, data, axis, extents), attr)


def _slices(
    bb: relax.BlockBuilder, data: relax.Expr, axis: int, extents: Sequence[Any]
) -> list[relax.Expr]:
    """One part after the other."""
    parts, begin = [], tirx.IntImm("int64", 0)
    for extent in extents:
        # The extent is in the type as it is; a match_cast to it makes TVM's passes crash.
        parts.append(bb.emit(relax.op.strided_slice(data, [axis], [begin], [begin + extent])))
        begin = begin + extent
    return parts


CONVERTERS = (Split,)
