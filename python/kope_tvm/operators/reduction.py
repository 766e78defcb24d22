# SPDX-License-Identifier: Apache-2.0
"""Reductions of one axis of a matrix."""

from __future__ import annotations

import numpy as np
from tvm import tirx, topi

from kope_tvm.operators.operator import Node, Operator, Parameters
from kope_tvm.tensor_spec import TensorSpec

_ONNX_INT32 = 6
"""Of `TensorProto.DataType`."""


def _inputs(p: Parameters) -> tuple[TensorSpec, ...]:
    return (TensorSpec("X", p.shape("m n"), p.dtype),)


REDUCE_SUM = Operator(
    name="reduce_sum",
    summary="Y[m] = sum of X[m, n] over n",
    sizes={"m": 1024, "n": 1024},
    inputs=_inputs,
    compute=lambda _, x: topi.sum(x, axis=-1),
    nodes=lambda _: (
        Node("Constant", (), "axes", {"value": np.array([-1], np.int64)}),
        Node("ReduceSum", ("X", "axes"), "out", {"keepdims": 0}),
    ),
    evaluate=lambda _, x: x.sum(axis=-1),
)
REDUCE_MAX = Operator(
    name="reduce_max",
    summary="Y[m] = max of X[m, n] over n",
    sizes={"m": 1024, "n": 1024},
    inputs=_inputs,
    compute=lambda _, x: topi.max(x, axis=-1),
    nodes=lambda _: (Node("ReduceMax", ("X",), "out", {"axes": [-1], "keepdims": 0}),),
    evaluate=lambda _, x: x.max(axis=-1),
)
COLUMN_MEAN = Operator(
    name="column_mean",
    summary="Y[n] = mean of X[m, n] over m",
    sizes={"m": 1024, "n": 1024},
    inputs=_inputs,
    compute=lambda p, x: topi.divide(topi.sum(x, axis=0), tirx.const(p["m"], p.dtype)),
    nodes=lambda _: (Node("ReduceMean", ("X",), "out", {"axes": [0], "keepdims": 0}),),
    evaluate=lambda _, x: x.mean(axis=0),
)
ARGMAX = Operator(
    name="argmax",
    summary="Y[m] = place of the first largest of X[m, n] along n, int32",
    sizes={"m": 1024, "n": 1024},
    inputs=_inputs,
    compute=lambda _, x: topi.argmax(x, axis=-1),
    nodes=lambda _: (
        Node("ArgMax", ("X",), "place", {"axis": -1, "keepdims": 0}),
        Node("Cast", ("place",), "out", {"to": _ONNX_INT32}),
    ),
    evaluate=lambda _, x: x.argmax(axis=-1).astype(np.int32),
)
OPERATORS = (REDUCE_SUM, REDUCE_MAX, COLUMN_MEAN, ARGMAX)
