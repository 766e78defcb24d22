# SPDX-License-Identifier: Apache-2.0
"""Reductions of the last axis."""

from __future__ import annotations

import numpy as np
from tvm import topi

from kope_tvm.operators.operator import Node, Operator, Parameters
from kope_tvm.tensor_spec import TensorSpec


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
OPERATORS = (REDUCE_SUM, REDUCE_MAX)
