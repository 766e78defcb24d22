# SPDX-License-Identifier: Apache-2.0
"""Elements moved, none changed."""

from __future__ import annotations

from tvm import topi

from kope_tvm.operators.operator import Node, Operator
from kope_tvm.tensor_spec import TensorSpec

TRANSPOSE = Operator(
    name="transpose",
    summary="Y[n, m] = X[m, n]",
    sizes={"m": 512, "n": 3072},
    inputs=lambda p: (TensorSpec("X", p.shape("m n"), p.dtype),),
    compute=lambda _, x: topi.transpose(x, (1, 0)),
    nodes=lambda _: (Node("Transpose", ("X",), "out", {"perm": [1, 0]}),),
    evaluate=lambda _, x: x.T.copy(),
)
OPERATORS = (TRANSPOSE,)
