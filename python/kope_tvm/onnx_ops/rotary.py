# SPDX-License-Identifier: Apache-2.0
"""Rotary position embedding as one kernel, the rows of its tables picked inside it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm import relax, te, tirx

from kope_tvm.onnx_ops.converter import shape_of

Row = Callable[[Any, Any], tuple[Any, ...]]
"""From a batch and a place in the sequence, the leading indices into the tables."""


@dataclass(frozen=True)
class Rotation:
    """How heads are rotated."""

    interleaved: bool
    """Whether pairs are neighbours; else element j pairs with j + half of the rotated part."""
    sequence_axis: int
    """1 for data of [batch, sequence, heads, size], 2 for [batch, heads, sequence, size]."""

    def element(self, x: te.Tensor, cos: te.Tensor, sin: te.Tensor, row: Row, at: Any) -> tirx.Expr:
        """Rotate what the tables cover, twice their width; pass the rest on."""
        *outer, place = at
        half = int(cos.shape[-1])
        table = row(at[0], at[self.sequence_axis])
        if self.interleaved:
            column, is_first = place // 2 % half, place % 2 == 0
            partner = tirx.Select(is_first, place + 1, place - 1)
        else:
            column, is_first = place % half, place < half
            partner = (place + half) % (2 * half)
        inside = place < 2 * half
        other = x[(*outer, tirx.Select(inside, partner, place))]
        turned = other * sin[(*table, column)]
        rotated = x[at] * cos[(*table, column)] + tirx.Select(is_first, -turned, turned)
        return tirx.Select(inside, rotated, x[at])


def rotate(
    bb: relax.BlockBuilder,
    rotation: Rotation,
    data: relax.Expr,
    tables: tuple[relax.Expr, relax.Expr],
    positions: relax.Expr | None,
) -> relax.Expr:
    """Rotate by position.

    `positions` is [batch, sequence], or one offset of all; None where the tables have a row for
    each batch and place, [batch, sequence, half].
    """

    def kernel(x: te.Tensor, cos: te.Tensor, sin: te.Tensor, *at: te.Tensor) -> te.Tensor:
        def row(batch: Any, place: Any) -> tuple[Any, ...]:
            if not at:
                return (batch, place)
            if len(at[0].shape) == 1:
                return (at[0][0].astype("int64") + place,)
            return (at[0][batch, place].astype("int64"),)

        return te.compute(
            x.shape, lambda *here: rotation.element(x, cos, sin, row, here), name="rotary"
        )

    args = [data, *tables] if positions is None else [data, *tables, positions]
    return bb.emit_te(kernel, *map(bb.normalize, args), primfunc_name_hint="rotary_embedding")


def as_heads(data: relax.Expr, num_heads: int) -> relax.Expr:
    """[batch, sequence, heads * size] as [batch, sequence, heads, size]."""
    batch, length, hidden = shape_of(data)
    return relax.op.reshape(data, (batch, length, num_heads, hidden // num_heads))
