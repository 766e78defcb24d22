# SPDX-License-Identifier: Apache-2.0
"""The standard's Attention, which shares its name with another operator of com.microsoft."""

from __future__ import annotations

from typing import Any

from onnx import TensorProto
from tvm import relax

from kope_tvm.errors import ModelError
from kope_tvm.onnx_ops.converter import ANY, Converter, dtype_of, result, shape_of
from kope_tvm.onnx_ops.dot_attention import (
    NEVER,
    Scoring,
    attend,
    mask,
    merge_heads,
    split_heads,
    total_bias,
    with_past,
)


class Attention(Converter):
    """Inputs Q, K, V, attn_mask, past_key, past_value; of rank 3 or 4."""

    operators = ("ai.onnx::Attention",)
    attributes = {
        "is_causal": ANY,
        "kv_num_heads": ANY,
        "q_num_heads": ANY,
        "qk_matmul_output_mode": ANY,
        "scale": ANY,
        "softcap": ANY,
        "softmax_precision": (0, TensorProto.FLOAT),
    }
    refused_inputs = {6: "nonpad_kv_seqlen"}
    refused_outputs = {3: "qk_matmul_output"}

    @classmethod
    def _impl_v23(cls, bb: relax.BlockBuilder, inputs: Any, attr: Any, params: Any) -> relax.Expr:
        query = _heads(bb, inputs[0], attr, "q_num_heads")
        key, value = (_heads(bb, each, attr, "kv_num_heads") for each in inputs[1:3])
        past = 0 if inputs[4] is None else shape_of(inputs[4])[2]
        key, value = with_past(bb, inputs[4], key), with_past(bb, inputs[5], value)
        shape = (1, 1, shape_of(query)[2], shape_of(key)[2])
        causal = None
        if attr.get("is_causal", 0):
            causal = mask(bb, shape, lambda b, h, row, at: at <= row + past)
        bias = total_bias(bb, _mask_bias(inputs[3], shape), causal)
        scale = attr.get("scale", shape_of(query)[-1] ** -0.5)
        out = attend(bb, query, key, value, bias, Scoring(scale, attr.get("softcap", 0.0)))
        if len(shape_of(inputs[0])) == 3:
            out = merge_heads(out)
        return result([out, key, value], attr)


def _heads(bb: relax.BlockBuilder, data: relax.Expr, attr: Any, called: str) -> relax.Expr:
    if len(shape_of(data)) == 4:
        return data
    if called not in attr:
        raise ModelError(f"data of rank 3 without {called}")
    return split_heads(bb, data, attr[called])


def _mask_bias(given: relax.Expr | None, shape: tuple[int, ...]) -> relax.Expr | None:
    if given is None:
        return None
    if shape_of(given)[-1] not in (1, shape[-1]):
        raise ModelError(f"attn_mask of shape {list(shape_of(given))} for {shape[-1]} keys")
    if dtype_of(given) != "bool":
        return given
    return relax.op.where(given, relax.const(0.0, "float32"), relax.const(NEVER, "float32"))


CONVERTERS = (Attention,)
