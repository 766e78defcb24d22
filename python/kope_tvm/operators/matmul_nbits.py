# SPDX-License-Identifier: Apache-2.0
"""Matrix product with 4-bit weights in blocks, as ONNX Runtime's MatMulNBits stores them."""

from __future__ import annotations

import numpy as np
from tvm import te

from kope_tvm.operators.operator import Node, Operator, Parameters
from kope_tvm.tensor_spec import TensorSpec

BLOCK = 32
"""Weights that share a scale, along k."""

_ZERO_POINT = 8


def _inputs(p: Parameters) -> tuple[TensorSpec, ...]:
    """Two weights a byte, the lower nibble first; `k` is rounded up to whole blocks."""
    num_blocks = -(-p["k"] // BLOCK)
    return (
        TensorSpec("A", p.shape("m k"), p.dtype),
        TensorSpec("B", (p["n"], num_blocks, BLOCK // 2), "uint8"),
        TensorSpec("scales", (p["n"], num_blocks), p.dtype),
    )


def _compute(p: Parameters, left: te.Tensor, packed: te.Tensor, scales: te.Tensor) -> te.Tensor:
    rows, columns, depth = p.shape("m n k")
    k = te.reduce_axis((0, depth), name="k")

    def weight(j: te.IterVar, at: te.IterVar) -> te.Tensor:
        byte = packed[j, at // BLOCK, at % BLOCK // 2].astype("int32")
        nibble = (byte >> (at % 2 * 4).astype("int32")) & 15
        return (nibble - _ZERO_POINT).astype(p.dtype) * scales[j, at // BLOCK]

    weights = te.compute((columns, depth), weight, name="dequantize")
    return te.compute(
        (rows, columns), lambda i, j: te.sum(left[i, k] * weights[j, k], axis=k), name="matmul"
    )


def _nodes(p: Parameters) -> tuple[Node, ...]:
    attributes = {"K": p["k"], "N": p["n"], "bits": 4, "block_size": BLOCK}
    operator = "com.microsoft::MatMulNBits"
    return (Node(operator, ("A", "B", "scales"), "out", attributes),)


def _evaluate(
    p: Parameters, left: np.ndarray, packed: np.ndarray, scales: np.ndarray
) -> np.ndarray:
    nibbles = np.stack([packed & 15, packed >> 4], axis=-1).reshape(p["n"], -1)
    weights = (nibbles.astype(left.dtype) - _ZERO_POINT) * np.repeat(scales, BLOCK, axis=1)
    return np.asarray(left @ weights[:, : p["k"]].T)


MATMUL_NBITS = Operator(
    name="matmul_nbits",
    summary="C[m, n] = A[m, k] @ dequantized(B)[n, k]^T, 4-bit B with a scale each 32 along k",
    sizes={"m": 1, "n": 1024, "k": 1024},
    inputs=_inputs,
    compute=_compute,
    nodes=_nodes,
    evaluate=_evaluate,
    weights=frozenset({"B", "scales"}),
)
OPERATORS = (MATMUL_NBITS,)
