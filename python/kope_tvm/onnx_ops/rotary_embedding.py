# SPDX-License-Identifier: Apache-2.0
"""RotaryEmbedding of com.microsoft and of the standard, which differ in their inputs' order."""

from __future__ import annotations

from typing import Any

from tvm import relax

from kope_tvm.errors import ModelError
from kope_tvm.onnx_ops.converter import ANY, Converter, shape_of
from kope_tvm.onnx_ops.rotary import Rotation, as_heads, rotate


def _converted(
    bb: relax.BlockBuilder,
    data: relax.Expr,
    tables: tuple[relax.Expr, relax.Expr],
    positions: relax.Expr | None,
    attr: Any,
) -> relax.Expr:
    shape = shape_of(data)
    is_interleaved = bool(attr.get("interleaved", 0))
    width = attr.get("rotary_embedding_dim", 0)
    if width and width != 2 * shape_of(tables[0])[-1]:
        raise ModelError(
            f"rotary_embedding_dim={width} with tables of {shape_of(tables[0])[-1]} columns; "
            f"expected half as many"
        )
    if len(shape) == 4:
        return rotate(bb, Rotation(is_interleaved, 2), data, tables, positions)
    num_heads = attr.get("num_heads", 0) or _heads(shape, tables, width)
    heads = rotate(bb, Rotation(is_interleaved, 1), as_heads(data, num_heads), tables, positions)
    return relax.op.reshape(heads, shape)


def _heads(shape: tuple[int, ...], tables: tuple[relax.Expr, relax.Expr], width: int) -> int:
    """Without a number of heads, a head is as wide as the tables rotate."""
    if width:
        raise ModelError(f"rotary_embedding_dim={width} without num_heads")
    return shape[-1] // (2 * shape_of(tables[0])[-1])


class MicrosoftRotaryEmbedding(Converter):
    """Inputs data, position_ids, cos_cache, sin_cache."""

    operators = ("com.microsoft::RotaryEmbedding",)
    attributes = {
        "interleaved": ANY,
        "is_packed_batching": (0,),
        "num_heads": ANY,
        "rotary_embedding_dim": ANY,
        "scale": (1.0,),
    }

    @classmethod
    def _impl_v1(cls, bb: relax.BlockBuilder, inputs: Any, attr: Any, params: Any) -> relax.Expr:
        return _converted(bb, inputs[0], (inputs[2], inputs[3]), inputs[1], attr)


class RotaryEmbedding(Converter):
    """Inputs data, cos_cache, sin_cache, position_ids."""

    operators = ("ai.onnx::RotaryEmbedding",)
    attributes = {"interleaved": ANY, "num_heads": ANY, "rotary_embedding_dim": ANY}

    @classmethod
    def _impl_v23(cls, bb: relax.BlockBuilder, inputs: Any, attr: Any, params: Any) -> relax.Expr:
        return _converted(bb, inputs[0], (inputs[1], inputs[2]), inputs[3], attr)


CONVERTERS = (MicrosoftRotaryEmbedding, RotaryEmbedding)
