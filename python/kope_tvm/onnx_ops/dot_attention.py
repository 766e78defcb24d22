# SPDX-License-Identifier: Apache-2.0
"""Scaled dot-product attention over grouped heads, in operators that Relax can tune and fuse."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm import relax, te, tirx

from kope_tvm.onnx_ops.converter import dtype_of, shape_of

NEVER = -3.4028234663852886e38
"""The lowest float32, added to the score of a key that must not be seen."""


@dataclass(frozen=True)
class Scoring:
    """What happens to scores before the softmax."""

    scale: float
    softcap: float = 0.0
    """0 for none; else scores become `softcap * tanh(score / softcap)` before a bias is added."""


def attend(
    bb: relax.BlockBuilder,
    query: relax.Expr,
    key: relax.Expr,
    value: relax.Expr,
    bias: relax.Expr | None,
    scoring: Scoring,
    *,
    sink: relax.Expr | None = None,
) -> relax.Expr:
    """softmax(score(query @ key^T) + bias) @ value, in float32, as [batch, heads, sequence, size].

    Query heads of a group are rows of one product, so that keys are read once for all of them.
    `sink` is one more score a head, of a key without a value.
    """
    dtype = dtype_of(query)
    query, key, value = (bb.normalize(_wide(each)) for each in (query, key, value))
    batch, heads, rows, size = shape_of(query)
    groups, keys = shape_of(key)[1], shape_of(key)[2]
    together = (batch, groups, heads // groups * rows, size)
    dots = relax.op.matmul(
        relax.op.reshape(query, together), relax.op.permute_dims(key, [0, 1, 3, 2])
    )
    scores = relax.op.reshape(dots, (batch, heads, rows, keys))
    weights = _softmax(_scored(scores, bias, scoring), sink)
    packed = relax.op.reshape(weights, (batch, groups, heads // groups * rows, keys))
    found = relax.op.matmul(packed, value)
    out = relax.op.reshape(found, (batch, heads, rows, shape_of(value)[-1]))
    return bb.normalize(out if dtype == "float32" else relax.op.astype(out, dtype))


def _wide(part: relax.Expr) -> relax.Expr:
    return part if dtype_of(part) == "float32" else relax.op.astype(part, "float32")


def _scored(scores: relax.Expr, bias: relax.Expr | None, scoring: Scoring) -> relax.Expr:
    scores = relax.op.multiply(scores, relax.const(scoring.scale, "float32"))
    if scoring.softcap:
        scores = _capped(scores, scoring.softcap)
    if bias is not None:
        scores = relax.op.add(scores, bias)
    return scores


def _capped(scores: relax.Expr, softcap: float) -> relax.Expr:
    cap = relax.const(softcap, "float32")
    return relax.op.multiply(relax.op.tanh(relax.op.divide(scores, cap)), cap)


def _softmax(scores: relax.Expr, sink: relax.Expr | None) -> relax.Expr:
    if sink is None:
        return relax.op.nn.softmax(scores, axis=-1)
    most = relax.op.maximum(relax.op.max(scores, axis=-1, keepdims=True), sink)
    powers = relax.op.exp(relax.op.subtract(scores, most))
    total = relax.op.sum(powers, axis=-1, keepdims=True)
    rest = relax.op.exp(relax.op.subtract(sink, most))
    return relax.op.divide(powers, relax.op.add(total, rest))


def mask(
    bb: relax.BlockBuilder,
    shape: tuple[int, int, int, int],
    is_seen: Callable[..., tirx.Expr],
    *args: relax.Expr,
    unseen: float = NEVER,
) -> relax.Expr:
    """A bias of `shape`: 0 where `is_seen(batch, head, row, key, *args)`, else `unseen`."""

    def kernel(*tensors: te.Tensor) -> te.Tensor:
        def element(*at: te.IterVar) -> tirx.Expr:
            seen = is_seen(*at, *tensors)
            return tirx.Select(seen, tirx.const(0.0, "float32"), tirx.const(unseen, "float32"))

        return te.compute(shape, element, name="mask")

    return bb.emit_te(kernel, *args, primfunc_name_hint="attention_mask")


def split_heads(bb: relax.BlockBuilder, data: relax.Expr, num_heads: int) -> relax.Expr:
    """[batch, sequence, heads * size] as [batch, heads, sequence, size]."""
    batch, length, hidden = shape_of(data)
    heads = relax.op.reshape(data, (batch, length, num_heads, hidden // num_heads))
    return bb.emit(relax.op.permute_dims(heads, [0, 2, 1, 3]))


def merge_heads(data: relax.Expr) -> relax.Expr:
    """[batch, heads, sequence, size] as [batch, sequence, heads * size]."""
    batch, heads, length, size = shape_of(data)
    return relax.op.reshape(
        relax.op.permute_dims(data, [0, 2, 1, 3]), (batch, length, heads * size)
    )


def with_past(bb: relax.BlockBuilder, past: relax.Expr | None, new: relax.Expr) -> relax.Expr:
    """Keys or values of the past before the new ones, along the sequence."""
    return new if past is None else bb.emit(relax.op.concat([past, new], axis=2))


def total_bias(bb: relax.BlockBuilder, *parts: relax.Expr | None) -> relax.Expr | None:
    """The sum of those that are there, in float32."""
    total: Any = None
    for part in parts:
        if part is not None:
            wide = _wide(bb.normalize(part))
            total = wide if total is None else relax.op.add(total, wide)
    return None if total is None else bb.normalize(total)
