# SPDX-License-Identifier: Apache-2.0
"""MultiHeadAttention of com.microsoft: self and cross attention, with or without a past."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvm import relax, tirx

from kope_tvm.errors import ModelError
from kope_tvm.onnx_ops.converter import ANY, Converter, result, shape_of
from kope_tvm.onnx_ops.dot_attention import (
    Scoring,
    attend,
    mask,
    merge_heads,
    split_heads,
    total_bias,
    with_past,
)

_MASKED = -10000.0
"""Added to the score of a padding key, unless the node says otherwise."""


class MultiHeadAttention(Converter):
    """Inputs query, key, value, bias, key_padding_mask, attention_bias, past_key, past_value."""

    operators = ("com.microsoft::MultiHeadAttention",)
    attributes = {
        "mask_filter_value": ANY,
        "num_heads": ANY,
        "scale": ANY,
        "unidirectional": ANY,
    }
    refused_inputs = {8: "past_sequence_length", 9: "cache_indirection"}
    refused_outputs = {3: "qk"}

    @classmethod
    def _impl_v1(cls, bb: relax.BlockBuilder, inputs: Any, attr: Any, params: Any) -> relax.Expr:
        if len(shape_of(inputs[0])) != 3 or inputs[1] is None or inputs[2] is None:
            raise ModelError("packed query, key and value are not supported: expected three inputs")
        heads = attr["num_heads"]
        query, key, value = (
            each if len(shape_of(each)) == 4 else split_heads(bb, each, heads)
            for each in _biased(bb, inputs[:3], inputs[3])
        )
        past = 0 if inputs[6] is None else shape_of(inputs[6])[2]
        key, value = with_past(bb, inputs[6], key), with_past(bb, inputs[7], value)
        shape = (shape_of(query)[0], 1, shape_of(query)[2], shape_of(key)[2])
        causal = None
        if attr.get("unidirectional", 0):
            causal = mask(bb, (1, *shape[1:]), lambda b, h, row, at: at <= row + past)
        padding = _padding(bb, inputs[4], shape, attr.get("mask_filter_value", _MASKED))
        scale = attr.get("scale", 0.0) or shape_of(query)[-1] ** -0.5
        bias = total_bias(bb, causal, padding, inputs[5])
        out = attend(bb, query, key, value, bias, Scoring(scale))
        return result([merge_heads(out), key, value], attr)


def _biased(
    bb: relax.BlockBuilder, given: Sequence[relax.Expr], bias: relax.Expr | None
) -> Sequence[relax.Expr]:
    """One vector holds the biases of all three; keys that come as heads have theirs already."""
    if bias is None:
        return given
    width = shape_of(given[0])[-1]
    parts = bb.emit(relax.op.split(bias, [width, 2 * width], axis=0))
    return [
        bb.emit(relax.op.add(each, parts[at])) if len(shape_of(each)) == 3 else each
        for at, each in enumerate(given)
    ]


def _padding(
    bb: relax.BlockBuilder,
    given: relax.Expr | None,
    shape: tuple[int, int, int, int],
    masked: float,
) -> relax.Expr | None:
    if given is None:
        return None
    batch, _, rows, keys = shape
    found = shape_of(given)
    seen: dict[tuple[int, ...], Callable[..., tirx.Expr]] = {
        (batch,): lambda b, h, row, at, lengths: at < lengths[b],
        (batch, keys): lambda b, h, row, at, kept: kept[b, at] > 0,
        (batch, rows, keys): lambda b, h, row, at, kept: kept[b, row, at] > 0,
    }
    if found not in seen:
        expected = " or ".join(str(list(each)) for each in seen)
        raise ModelError(
            f"key_padding_mask of shape {list(found)} is not supported; expected {expected}"
        )
    return mask(bb, shape, seen[found], given, unseen=masked)


CONVERTERS = (MultiHeadAttention,)
