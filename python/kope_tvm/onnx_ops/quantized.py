# SPDX-License-Identifier: Apache-2.0
"""Quantisation as one elementwise kernel: by tensor, by axis or by block, exact as ONNX has it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import relax, te, tirx

from kope_tvm.errors import ModelError
from kope_tvm.onnx_ops.converter import dtype_of, shape_of

QUANTIZED = frozenset({"int8", "uint8", "int16", "uint16", "int32"})


@dataclass(frozen=True)
class Granularity:
    """Which element of the scales belongs to an element of the data."""

    axis: int | None
    """None where one scale is for all."""
    block_size: int = 0
    """Elements along the axis that share a scale, where scales have the rank of the data."""

    @staticmethod
    def of(data: relax.Expr, scale: relax.Expr, axis: int, block_size: int) -> Granularity:
        """Read it from the shapes; raises ModelError where they don't fit."""
        extents, scales = shape_of(data), shape_of(scale)
        if not scales or scales == (1,):
            return Granularity(None)
        axis += len(extents) if axis < 0 else 0
        if not 0 <= axis < len(extents):
            raise ModelError(f"axis {axis} of data of shape {list(extents)}")
        if block_size:
            expected = list(extents)
            expected[axis] = -(-extents[axis] // block_size)
        else:
            expected = [extents[axis]]
        if list(scales) != expected:
            raise ModelError(
                f"scale of shape {list(scales)} for data of shape {list(extents)}, axis {axis}, "
                f"block_size {block_size}; expected {expected}"
            )
        return Granularity(axis, block_size)

    def __call__(self, values: te.Tensor, at: Sequence[Any]) -> tirx.Expr:
        """The element of `values` for the data's element at `at`."""
        if self.axis is None:
            return values[(0,) * len(values.shape)]
        if not self.block_size:
            return values[at[self.axis]]
        index = list(at)
        index[self.axis] = at[self.axis] // self.block_size
        return values[tuple(index)]


def _emitted(
    bb: relax.BlockBuilder,
    kernel: Callable[..., te.Tensor],
    data: relax.Expr,
    scale: relax.Expr,
    zero_point: relax.Expr | None,
    *,
    called: str,
) -> relax.Expr:
    """A kernel of the data, its scale and, where it has one, its zero point."""
    args = [data, scale] if zero_point is None else [data, scale, zero_point]
    return bb.emit_te(kernel, *args, primfunc_name_hint=called)


def dequantize(
    bb: relax.BlockBuilder,
    data: relax.Expr,
    scale: relax.Expr,
    zero_point: relax.Expr | None,
    granularity: Granularity,
    out_dtype: str,
) -> relax.Expr:
    """`(data - zero_point) * scale`, the difference in int32 and the product in float32."""

    def kernel(x: te.Tensor, scales: te.Tensor, *points: te.Tensor) -> te.Tensor:
        def element(*at: te.IterVar) -> tirx.Expr:
            value = x[at].astype("int32")
            if points:
                value = value - granularity(points[0], at).astype("int32")
            product = value.astype("float32") * granularity(scales, at).astype("float32")
            return product.astype(out_dtype)

        return te.compute(x.shape, element, name="dequantize")

    return _emitted(bb, kernel, data, scale, zero_point, called="dequantize")


def quantize(
    bb: relax.BlockBuilder,
    data: relax.Expr,
    scale: relax.Expr,
    zero_point: relax.Expr | None,
    granularity: Granularity,
    out_dtype: str,
) -> relax.Expr:
    """`data / scale`, rounded half to even, plus the zero point, clipped to the type."""

    def kernel(x: te.Tensor, scales: te.Tensor, *points: te.Tensor) -> te.Tensor:
        def element(*at: te.IterVar) -> tirx.Expr:
            ratio = x[at].astype("float32") / granularity(scales, at).astype("float32")
            point = granularity(points[0], at) if points else None
            return saturated(ratio, point, out_dtype)

        return te.compute(x.shape, element, name="quantize")

    return _emitted(bb, kernel, data, scale, zero_point, called="quantize")


def requantize(
    bb: relax.BlockBuilder,
    sums: relax.Expr,
    scale: relax.Expr,
    zero_point: relax.Expr | None,
    granularity: Granularity,
    out_dtype: str,
) -> relax.Expr:
    """Integer sums times `scale`, rounded half to even, plus the zero point, clipped."""

    def kernel(x: te.Tensor, scales: te.Tensor, *points: te.Tensor) -> te.Tensor:
        def element(*at: te.IterVar) -> tirx.Expr:
            product = x[at].astype("float32") * granularity(scales, at)
            point = points[0][(0,) * len(points[0].shape)] if points else None
            return saturated(product, point, out_dtype)

        return te.compute(x.shape, element, name="requantize")

    return _emitted(bb, kernel, sums, scale, zero_point, called="requantize")


def saturated(value: tirx.Expr, zero_point: tirx.Expr | None, dtype: str) -> tirx.Expr:
    """A float as an integer of `dtype`; clipped as a float, which holds both bounds exactly."""
    rounded = tirx.nearbyint(value)
    if zero_point is not None:
        rounded = rounded + zero_point.astype("float32")
    low, high = (
        tirx.Cast("float32", bound) for bound in (tirx.min_value(dtype), tirx.max_value(dtype))
    )
    return tirx.max(tirx.min(rounded, high), low).astype(dtype)


def centred(data: relax.Expr, zero_point: relax.Expr | None) -> relax.Expr:
    """`data - zero_point` as int16, which holds every difference of two bytes."""
    wide = relax.op.astype(data, "int16")
    if zero_point is None:
        return wide
    return relax.op.subtract(wide, relax.op.astype(zero_point, "int16"))


def refuse_dtype(expr: relax.Expr, called: str, allowed: frozenset[str]) -> None:
    """Raise ModelError unless the element type is one of `allowed`."""
    if dtype_of(expr) not in allowed:
        raise ModelError(
            f"{called} of {dtype_of(expr)} is not supported; expected {', '.join(sorted(allowed))}"
        )
