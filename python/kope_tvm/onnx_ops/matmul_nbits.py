# SPDX-License-Identifier: Apache-2.0
"""Matrix product with 4- or 8-bit weights in blocks, which stay packed in memory.

Unpacking is part of the product's own kernel, so that constant folding can't widen the weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from tvm import relax, te, tirx

from kope_tvm.onnx_ops.converter import ANY, Converter, dtype_of, shape_of


@dataclass(frozen=True)
class _Format:
    """How one node stores its weights."""

    columns: int
    depth: int
    bits: int
    block_size: int

    @property
    def num_blocks(self) -> int:
        return -(-self.depth // self.block_size)

    @property
    def block_bytes(self) -> int:
        return self.block_size * self.bits // 8

    @property
    def zero_point_bytes(self) -> int:
        """Packed zero points of a column."""
        return -(-self.num_blocks * self.bits // 8)

    def weight(self, packed: te.Tensor, column: Any, at: Any) -> tirx.Expr:
        """The stored integer; of two in a byte the even one lies in the lower half."""
        within = at % self.block_size
        if self.bits == 8:
            return packed[column, at // self.block_size, within].astype("int32")
        return _nibble(packed[column, at // self.block_size, within // 2], within)

    def zero_point(self, points: te.Tensor, column: Any, block: Any) -> tirx.Expr:
        """Unpacked ones are floats, one a block."""
        if str(points.dtype) != "uint8":
            return points[column, block]
        if self.bits == 8:
            return points[column, block].astype("int32")
        return _nibble(points[column, block // 2], block)


def _nibble(byte: tirx.Expr, position: Any) -> tirx.Expr:
    return (byte.astype("int32") >> (position % 2 * 4).astype("int32")) & 15


@dataclass(frozen=True)
class _Product:
    """The kernel of one node."""

    stored: _Format
    has_zero_points: bool
    has_bias: bool

    def __call__(
        self, left: te.Tensor, packed: te.Tensor, scales: te.Tensor, *rest: te.Tensor
    ) -> te.Tensor:
        """Rows of `left` by the unpacked columns; sums of float16 are float32."""
        weights = self._dequantized(left, packed, scales, rest)
        k = te.reduce_axis((0, _extent(self.stored.depth)), name="k")
        shape = (left.shape[0], _extent(self.stored.columns))
        sums = te.compute(
            shape,
            lambda i, j: te.sum(_wide(left[i, k]) * _wide(weights[j, k]), axis=k),
            name="matmul",
        )
        if self.has_bias:
            bias = rest[-1]
            sums = te.compute(shape, lambda i, j: sums[i, j] + _wide(bias[j]), name="bias")
        if str(sums.dtype) == str(left.dtype):
            return sums
        return te.compute(shape, lambda i, j: sums[i, j].astype(left.dtype), name="narrow")

    def _dequantized(
        self, left: te.Tensor, packed: te.Tensor, scales: te.Tensor, rest: tuple[te.Tensor, ...]
    ) -> te.Tensor:
        stored = self.stored

        def weight(j: te.IterVar, at: te.IterVar) -> tirx.Expr:
            block = at // stored.block_size
            value: Any = stored.weight(packed, j, at)
            if self.has_zero_points:
                point = stored.zero_point(rest[0], j, block)
                value = value.astype(left.dtype) - point.astype(left.dtype)
            else:
                value = (value - (1 << (stored.bits - 1))).astype(left.dtype)
            return value * scales[j, block]

        shape = (_extent(stored.columns), _extent(stored.depth))
        return te.compute(shape, weight, name="dequantize")


def _extent(extent: int) -> tirx.IntImm:
    """As wide as Relax's own: a narrower one is widened, and with it the arithmetic on bytes."""
    return tirx.IntImm("int64", extent)


def _wide(value: tirx.Expr) -> tirx.Expr:
    return value.astype("float32") if str(value.dtype) == "float16" else value


class MatMulNBits(Converter):
    """`A @ dequantized(B)^T`, with optional zero points and bias."""

    operators = ("com.microsoft::MatMulNBits",)
    attributes = {
        "K": ANY,
        "N": ANY,
        "bits": (4, 8),
        "block_size": ANY,
        "accuracy_level": ANY,
        "weight_prepacked": (0,),
    }
    refused_inputs = {4: "g_idx"}

    @classmethod
    def _impl_v1(cls, bb: relax.BlockBuilder, inputs: Any, attr: Any, params: Any) -> relax.Expr:
        stored = _Format(attr["N"], attr["K"], attr.get("bits", 4), attr["block_size"])
        left, points, bias = inputs[0], inputs[3], inputs[5]
        rows = shape_of(left)[:-1]
        blocks = (stored.columns, stored.num_blocks)
        args = [
            relax.op.reshape(left, (prod(rows), stored.depth)),
            relax.op.reshape(inputs[1], (*blocks, stored.block_bytes)),
            relax.op.reshape(inputs[2], blocks),
        ]
        if points is not None:
            is_packed = dtype_of(points) == "uint8"
            each = stored.zero_point_bytes if is_packed else stored.num_blocks
            args.append(relax.op.reshape(points, (stored.columns, each)))
        if bias is not None:
            args.append(bias)
        product = _Product(stored, points is not None, bias is not None)
        found = bb.emit_te(
            product, *map(bb.normalize, args), primfunc_name_hint=f"matmul_nbits_{stored.bits}"
        )
        return relax.op.reshape(found, (*rows, stored.columns))


CONVERTERS = (MatMulNBits,)
