# SPDX-License-Identifier: Apache-2.0
"""Layer and RMS normalisation of a sum of inputs, as transformer exports fuse them."""

from __future__ import annotations

from typing import Any

from tvm import relax

from kope_tvm.errors import ModelError
from kope_tvm.onnx_ops.converter import ANY, Converter, dtype_of, result, shape_of

_STATISTICS = {1: "mean", 2: "inv_std_var"}


def _sum(bb: relax.BlockBuilder, data: relax.Expr, *others: relax.Expr | None) -> relax.Expr:
    for other in others:
        if other is not None:
            data = relax.op.add(data, other)
    return bb.normalize(data)


def _epsilon(attr: Any, default: float) -> float:
    return float(attr.get("epsilon", default))


class SkipLayerNormalization(Converter):
    """Inputs data, skip, gamma, beta, bias; the fourth output is the sum itself."""

    operators = ("com.microsoft::SkipLayerNormalization",)
    attributes = {"epsilon": ANY}
    refused_outputs = _STATISTICS

    @classmethod
    def _impl_v1(cls, bb: relax.BlockBuilder, inputs: Any, attr: Any, params: Any) -> relax.Expr:
        total = bb.emit(_sum(bb, inputs[0], inputs[1], inputs[4]))
        gamma, beta = inputs[2], inputs[3]
        if beta is None:
            beta = relax.op.zeros(shape_of(gamma), dtype_of(gamma))
        out = relax.op.nn.layer_norm(total, gamma, beta, axes=-1, epsilon=_epsilon(attr, 1e-12))
        return result([out, total, total, total], attr)


class SkipSimplifiedLayerNormalization(Converter):
    """Inputs data, skip, gamma, bias; the fourth output is the sum itself."""

    operators = ("com.microsoft::SkipSimplifiedLayerNormalization",)
    attributes = {"epsilon": ANY}
    refused_outputs = _STATISTICS

    @classmethod
    def _impl_v1(cls, bb: relax.BlockBuilder, inputs: Any, attr: Any, params: Any) -> relax.Expr:
        total = bb.emit(_sum(bb, inputs[0], inputs[1], inputs[3]))
        out = relax.op.nn.rms_norm(total, inputs[2], axes=-1, epsilon=_epsilon(attr, 1e-12))
        return result([out, total, total, total], attr)


class SimplifiedLayerNormalization(Converter):
    """RMS normalisation over the last axis, under the name it had before the standard's."""

    operators = (
        "ai.onnx::SimplifiedLayerNormalization",
        "com.microsoft::SimplifiedLayerNormalization",
    )
    attributes = {"axis": ANY, "epsilon": ANY, "stash_type": (1,)}
    refused_outputs = {1: "inv_std_var"}

    @classmethod
    def _impl_v1(cls, bb: relax.BlockBuilder, inputs: Any, attr: Any, params: Any) -> relax.Expr:
        rank = len(shape_of(inputs[0]))
        if attr.get("axis", -1) not in (-1, rank - 1):
            raise ModelError(f"axis {attr['axis']} of data of rank {rank}: expected the last axis")
        return relax.op.nn.rms_norm(inputs[0], inputs[1], axes=-1, epsilon=_epsilon(attr, 1e-5))


CONVERTERS = (
    SkipLayerNormalization,
    SkipSimplifiedLayerNormalization,
    SimplifiedLayerNormalization,
)
