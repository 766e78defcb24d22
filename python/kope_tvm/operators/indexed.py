# SPDX-License-Identifier: Apache-2.0
"""Rows picked by index, and rows added up by index."""

from __future__ import annotations

import numpy as np
from tvm import te, tirx, topi

from kope_tvm.operators.operator import Node, Operator, Parameters
from kope_tvm.tensor_spec import TensorSpec


def _gather_inputs(p: Parameters) -> tuple[TensorSpec, ...]:
    return (
        TensorSpec("table", p.shape("v n"), p.dtype),
        TensorSpec("ids", p.shape("m"), "int64"),
    )


def _scatter_inputs(p: Parameters) -> tuple[TensorSpec, ...]:
    return (
        TensorSpec("X", p.shape("v n"), p.dtype),
        TensorSpec("ids", (p["m"], 1), "int64"),
        TensorSpec("updates", p.shape("m n"), p.dtype),
    )


def _scatter_add(p: Parameters, data: te.Tensor, ids: te.Tensor, updates: te.Tensor) -> te.Tensor:
    """Each row gathers its updates: no two threads write to one element."""
    m = te.reduce_axis((0, p["m"]), name="m")
    zero = tirx.const(0, p.dtype)
    sums = te.compute(
        p.shape("v n"),
        lambda i, j: te.sum(
            tirx.Select(ids[m, 0] == i.astype("int64"), updates[m, j], zero), axis=m
        ),
        name="segments",
    )
    return topi.add(data, sums)


def _scatter_reference(
    _: Parameters, data: np.ndarray, ids: np.ndarray, updates: np.ndarray
) -> np.ndarray:
    out = data.copy()
    np.add.at(out, ids[:, 0], updates)
    return out


GATHER = Operator(
    name="gather",
    summary="Y[m, n] = table[ids[m], n]",
    sizes={"v": 8192, "m": 1024, "n": 512},
    inputs=_gather_inputs,
    compute=lambda _, table, ids: topi.take(table, ids, axis=0, mode="clip"),
    nodes=lambda _: (Node("Gather", ("table", "ids"), "out", {"axis": 0}),),
    evaluate=lambda _, table, ids: table[ids],
    limits={"ids": "v"},
)
SCATTER_ADD = Operator(
    name="scatter_add",
    summary="Y[v, n] = X[v, n], with updates[m, n] added to rows ids[m]",
    sizes={"v": 128, "m": 256, "n": 128},
    inputs=_scatter_inputs,
    compute=_scatter_add,
    nodes=lambda _: (Node("ScatterND", ("X", "ids", "updates"), "out", {"reduction": "add"}),),
    evaluate=_scatter_reference,
    limits={"ids": "v"},
)
OPERATORS = (GATHER, SCATTER_ADD)
