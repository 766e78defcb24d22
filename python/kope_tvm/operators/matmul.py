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


def _linear(p: Parameters, left: te.Tensor, weight: te.Tensor) -> te.Tensor:
    k = te.reduce_axis((0, p["k"]), name="k")
    return te.compute(
        p.shape("m n"), lambda i, j: te.sum(left[i, k] * weight[j, k], axis=k), name="matmul"
    )


def _nodes(_: Parameters) -> tuple[Node, ...]:
    return (Node("MatMul", ("A", "B"), "out"),)


_ONNX_UINT8, _ONNX_INT32 = 2, 6
"""`onnx.TensorProto.DataType`."""


def _integer_nodes(p: Parameters) -> tuple[Node, ...]:
    """ONNX Runtime multiplies int8 by int8 a tenth as fast as uint8 by int8: so A is shifted."""
    if p.dtype == "uint8":
        return (Node("MatMulInteger", ("A", "B"), "out"),)
    return (
        Node("Constant", (), "middle", {"value": np.array(128, np.int32)}),
        Node("Constant", (), "zero_point", {"value": np.array(128, np.uint8)}),
        Node("Cast", ("A",), "wide", {"to": _ONNX_INT32}),
        Node("Add", ("wide", "middle"), "shifted"),
        Node("Cast", ("shifted",), "rows", {"to": _ONNX_UINT8}),
        Node("MatMulInteger", ("rows", "B", "zero_point"), "out"),
    )


MATMUL = Operator(
    name="matmul",
    summary="C[m, n] = A[m, k] @ B[k, n]",
    sizes={"m": 512, "n": 512, "k": 512},
    inputs=_matmul_inputs,
    compute=lambda p, a, b: _product(a, b, p.dtype),
    nodes=_nodes,
    evaluate=lambda _, a, b: np.matmul(a, b),
    weights=frozenset({"B"}),
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
    weights=frozenset({"B", "bias"}),
)
LINEAR = Operator(
    name="linear",
    summary="C[m, n] = A[m, k] @ W[n, k]^T, weights as PyTorch keeps them",
    sizes={"m": 128, "n": 768, "k": 768},
    inputs=lambda p: (
        TensorSpec("A", p.shape("m k"), p.dtype),
        TensorSpec("W", p.shape("n k"), p.dtype),
    ),
    compute=_linear,
    nodes=lambda _: (Node("Gemm", ("A", "W"), "out", {"transB": 1}),),
    evaluate=lambda _, a, w: np.matmul(a, w.T),
    weights=frozenset({"W"}),
)
MATMUL_INT8 = Operator(
    name="matmul_int8",
    summary="C[m, n] = A[m, k] @ B[k, n], int8 in, int32 out",
    sizes={"m": 512, "n": 512, "k": 512},
    inputs=_matmul_inputs,
    compute=lambda _, a, b: _product(a, b, "int32"),
    nodes=_integer_nodes,
    evaluate=lambda _, a, b: np.matmul(a.astype(np.int32), b.astype(np.int32)),
    dtypes=("int8", "uint8"),
    weights=frozenset({"B"}),
)
OPERATORS = (MATMUL, BATCH_MATMUL, DENSE, LINEAR, MATMUL_INT8)
