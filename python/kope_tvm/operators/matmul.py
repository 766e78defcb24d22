# SPDX-License-Identifier: Apache-2.0
"""Matrix products."""

from __future__ import annotations

import numpy as np
from tvm import te

from kope_tvm.operators.operator import Node, Operator, Parameters
from kope_tvm.tensor_spec import TensorSpec


def _product(left: te.Tensor, right: te.Tensor, acc_dtype: str) -> te.Tensor:
    """`left[..., m, k] @ right[..., k, n]` as one block."""
    *batch, rows, depth = left.shape
    k = te.reduce_axis((0, depth), name="k")

    def cell(*index: te.IterVar) -> te.Tensor:
        *at, i, j = index
        factors = left[(*at, i, k)].astype(acc_dtype), right[(*at, k, j)].astype(acc_dtype)
        return te.sum(factors[0] * factors[1], axis=k)

    return te.compute((*batch, rows, right.shape[-1]), cell, name="matmul")


def _matmul_inputs(p: Parameters) -> tuple[TensorSpec, ...]:
    return (
        TensorSpec("A", p.shape("m k"), p.dtype),
        TensorSpec("B", p.shape("k n"), p.dtype),
    )


def _batch_inputs(p: Parameters) -> tuple[TensorSpec, ...]:
    return (
        TensorSpec("A", p.shape("b m k"), p.dtype),
        TensorSpec("B", p.shape("b k n"), p.dtype),
    )


def _dense_inputs(p: Parameters) -> tuple[TensorSpec, ...]:
    return (*_matmul_inputs(p), TensorSpec("bias", p.shape("n"), p.dtype))


def _dense(p: Parameters, left: te.Tensor, right: te.Tensor, bias: te.Tensor) -> te.Tensor:
    product = _product(left, right, p.dtype)
    return te.compute(product.shape, lambda i, j: product[i, j] + bias[j], name="add")


def _nodes(_: Parameters) -> tuple[Node, ...]:
    return (Node("MatMul", ("A", "B"), "out"),)


MATMUL = Operator(
    name="matmul",
    summary="C[m, n] = A[m, k] @ B[k, n]",
    sizes={"m": 512, "n": 512, "k": 512},
    inputs=_matmul_inputs,
    compute=lambda p, a, b: _product(a, b, p.dtype),
    nodes=_nodes,
    evaluate=lambda _, a, b: np.matmul(a, b),
)
BATCH_MATMUL = Operator(
    name="batch_matmul",
    summary="C[b, m, n] = A[b, m, k] @ B[b, k, n]",
    sizes={"b": 8, "m": 128, "n": 64, "k": 128},
    inputs=_batch_inputs,
    compute=lambda p, a, b: _product(a, b, p.dtype),
    nodes=_nodes,
    evaluate=lambda _, a, b: np.matmul(a, b),
)
DENSE = Operator(
    name="dense",
    summary="C[m, n] = A[m, k] @ B[k, n] + bias[n]",
    sizes={"m": 128, "n": 3072, "k": 768},
    inputs=_dense_inputs,
    compute=_dense,
    nodes=lambda _: (
        Node("MatMul", ("A", "B"), "product"),
        Node("Add", ("product", "bias"), "out"),
    ),
    evaluate=lambda _, a, b, bias: np.matmul(a, b) + bias,
)
MATMUL_INT8 = Operator(
    name="matmul_int8",
    summary="C[m, n] = A[m, k] @ B[k, n], int8 in, int32 out",
    sizes={"m": 512, "n": 512, "k": 512},
    inputs=_matmul_inputs,
    compute=lambda _, a, b: _product(a, b, "int32"),
    nodes=lambda _: (Node("MatMulInteger", ("A", "B"), "out"),),
    evaluate=lambda _, a, b: np.matmul(a.astype(np.int32), b.astype(np.int32)),
    dtypes=("int8", "uint8"),
)
OPERATORS = (MATMUL, BATCH_MATMUL, DENSE, MATMUL_INT8)
