# SPDX-License-Identifier: Apache-2.0
"""Attention of one new token over a cache of keys and values, heads in groups that share them."""

from __future__ import annotations

from kope_tvm.operators.attention import attend, evaluate, nodes
from kope_tvm.operators.operator import Operator, Parameters
from kope_tvm.tensor_spec import TensorSpec


def _inputs(p: Parameters) -> tuple[TensorSpec, ...]:
    """Queries of one token, `r` heads for each of the `g` of the cache."""
    return (
        TensorSpec("Q", p.shape("g r d"), p.dtype),
        TensorSpec("K", p.shape("g n d"), p.dtype),
        TensorSpec("V", p.shape("g n d"), p.dtype),
    )


DECODE_ATTENTION = Operator(
    name="decode_attention",
    summary="O[g, r, d] = softmax(Q[g, r, d] @ K[g, n, d]^T / sqrt(d)) @ V, n tokens in the cache",
    sizes={"g": 4, "r": 8, "n": 1024, "d": 64},
    inputs=_inputs,
    compute=attend,
    nodes=nodes,
    evaluate=evaluate,
)
OPERATORS = (DECODE_ATTENTION,)
