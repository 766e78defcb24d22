# SPDX-License-Identifier: Apache-2.0
"""GroupQueryAttention of com.microsoft: causal attention over a cache of keys and values.

The cache is read and written as values: its new state is an output of the length that the constant
`total_sequence_length` and the past's buffer give it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import relax, te, tirx

from kope_tvm.errors import ModelError
from kope_tvm.onnx_ops.converter import ANY, Converter, dtype_of, is_constant, result, shape_of
from kope_tvm.onnx_ops.dot_attention import (
    Scoring,
    attend,
    mask,
    merge_heads,
    split_heads,
    total_bias,
)
from kope_tvm.onnx_ops.rotary import Rotation, rotate

_PAST_KEY, _PAST_VALUE, _LENGTHS, _TOTAL, _COS, _SIN, _POSITIONS, _BIAS, _SINK = range(3, 12)


@dataclass(frozen=True)
class _Cache:
    """Where new keys go: after `lengths[batch] + 1 - rows` old ones, or first in a prompt."""

    rows: int
    buffer: int
    """Extent of the past's buffer."""
    total: int
    """Keys of the longest sequence, the new ones included."""

    @property
    def present(self) -> int:
        return max(self.buffer, self.total)

    @property
    def is_prompt(self) -> bool:
        """Whether nothing came before the new rows."""
        return self.rows == self.total

    def start(self, lengths: te.Tensor, batch: Any) -> tirx.Expr:
        """The number of keys that `batch` has before the new ones."""
        if self.is_prompt:
            return tirx.IntImm("int64", 0)
        return lengths[batch].astype("int64") + 1 - self.rows

    def updated(
        self,
        bb: relax.BlockBuilder,
        past: relax.Expr | None,
        new: relax.Expr,
        lengths: relax.Expr,
    ) -> relax.Expr:
        """The past with the new rows after it, and zeros up to the present's extent."""
        batches, heads, _, size = shape_of(new)

        def kernel(fresh: te.Tensor, counts: te.Tensor, *old: te.Tensor) -> te.Tensor:
            def element(b: te.IterVar, h: te.IterVar, at: te.IterVar, d: te.IterVar) -> tirx.Expr:
                begin = self.start(counts, b)
                zero = tirx.const(0.0, fresh.dtype)
                inside = tirx.all(at >= begin, at < begin + self.rows)
                value = tirx.if_then_else(inside, fresh[b, h, at - begin, d], zero)
                if not old:
                    return value
                is_old = tirx.all(at < begin, at < self.buffer)
                return tirx.if_then_else(is_old, old[0][b, h, at, d], value)

            return te.compute((batches, heads, self.present, size), element, name="present")

        args = [new, lengths] if past is None else [new, lengths, past]
        return bb.emit_te(kernel, *args, primfunc_name_hint="cache_update")

    def places(
        self, bb: relax.BlockBuilder, lengths: relax.Expr, given: relax.Expr | None
    ) -> relax.Expr:
        """The place of each new row in its sequence, [batch, rows].

        Of those given for a first prompt the operator has the first one count for all rows.
        """
        if given is not None and not self.is_prompt:
            return given

        def kernel(counts: te.Tensor, *first: te.Tensor) -> te.Tensor:
            def place(b: te.IterVar, row: te.IterVar) -> tirx.Expr:
                return (first[0][0, 0] if first else self.start(counts, b)) + row

            return te.compute((counts.shape[0], self.rows), place, name="positions")

        args = [lengths] if given is None else [lengths, given]
        return bb.emit_te(kernel, *args, primfunc_name_hint="positions")

    def bias(self, bb: relax.BlockBuilder, lengths: relax.Expr, window: int) -> relax.Expr:
        """Hide keys after a row's own, and those `window` or more before it."""

        def is_seen(b: Any, h: Any, row: Any, at: Any, counts: Any) -> tirx.Expr:
            own = self.start(counts, b) + row
            return at <= own if window < 0 else tirx.all(at <= own, at > own - window)

        batches = shape_of(lengths)[0]
        return mask(bb, (batches, 1, self.rows, self.present), is_seen, lengths)


class GroupQueryAttention(Converter):
    """Inputs query, key, value, the cache, its lengths, rotary tables, bias and head sinks."""

    operators = ("com.microsoft::GroupQueryAttention",)
    attributes = {
        "causal": (1,),
        "do_rotary": ANY,
        "k_quant_type": ("NONE",),
        "kv_cache_bit_width": (0,),
        "kv_num_heads": ANY,
        "local_window_size": ANY,
        "num_heads": ANY,
        "k_norm_epsilon": ANY,
        "q_norm_epsilon": ANY,
        "qk_norm_epsilon": ANY,
        "qk_output": (0,),
        "sliding_window_cache": (0,),
        "rotary_interleaved": ANY,
        "scale": ANY,
        "smooth_softmax": ANY,
        "softcap": ANY,
        "v_quant_type": ("NONE",),
    }
    refused_inputs = {
        12: "k_scale",
        13: "v_scale",
        14: "q_norm_weight",
        15: "k_norm_weight",
        16: "query_seqlens",
    }
    refused_outputs = {3: "output_qk"}

    @classmethod
    def _impl_v1(cls, bb: relax.BlockBuilder, inputs: Any, attr: Any, params: Any) -> relax.Expr:
        query, key, value = _heads(bb, inputs, attr)
        lengths = bb.normalize(relax.op.reshape(inputs[_LENGTHS], (shape_of(query)[0],)))
        cache = _cache(inputs, shape_of(query)[2])
        if attr.get("do_rotary", 0):
            rotation = Rotation(bool(attr.get("rotary_interleaved", 0)), 2)
            tables = (inputs[_COS], inputs[_SIN])
            places = cache.places(bb, lengths, inputs[_POSITIONS])
            query, key = (rotate(bb, rotation, each, tables, places) for each in (query, key))
        key = cache.updated(bb, inputs[_PAST_KEY], key, lengths)
        value = cache.updated(bb, inputs[_PAST_VALUE], value, lengths)
        bias = total_bias(
            bb, cache.bias(bb, lengths, attr.get("local_window_size", -1)), inputs[_BIAS]
        )
        scale = attr.get("scale", 0.0) or shape_of(query)[-1] ** -0.5
        scoring = Scoring(scale, attr.get("softcap", 0.0))
        out = attend(bb, query, key, value, bias, scoring, sink=_sink(inputs[_SINK], attr))
        return result([merge_heads(out), key, value], attr)


def _heads(
    bb: relax.BlockBuilder, inputs: Any, attr: Any
) -> tuple[relax.Expr, relax.Expr, relax.Expr]:
    """Three tensors of heads; without key and value the query holds all three side by side."""
    query, key, value = inputs[:3]
    heads, groups = attr["num_heads"], attr["kv_num_heads"]
    if key is None or value is None:
        size = shape_of(query)[-1] // (heads + 2 * groups)
        ends = [heads * size, (heads + groups) * size]
        parts = bb.emit(relax.op.split(query, ends, axis=2))
        query, key, value = (bb.emit(relax.TupleGetItem(parts, at)) for at in range(3))
    return (
        split_heads(bb, query, heads),
        split_heads(bb, key, groups),
        split_heads(bb, value, groups),
    )


def _cache(inputs: Any, rows: int) -> _Cache:
    past, total = inputs[_PAST_KEY], inputs[_TOTAL]
    buffer = 0 if past is None else shape_of(past)[2]
    if is_constant(total):
        return _Cache(rows, buffer, int(total.value.numpy().reshape(-1)[0]))
    if buffer == 0:
        return _Cache(rows, buffer, rows)
    raise ModelError(
        "total_sequence_length is known at run time only; give the model's dimensions sizes from "
        "which it follows, or make it a constant"
    )


def _sink(given: relax.Expr | None, attr: Any) -> relax.Expr | None:
    if given is not None:
        wide = given if dtype_of(given) == "float32" else relax.op.astype(given, "float32")
        return relax.op.reshape(wide, (1, shape_of(given)[0], 1, 1))
    return relax.const(0.0, "float32") if attr.get("smooth_softmax", 0) > 0 else None


CONVERTERS = (GroupQueryAttention,)
