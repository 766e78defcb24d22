# SPDX-License-Identifier: Apache-2.0
"""Running sums, in blocks: TVM's own are one opaque loop that no schedule can touch."""

from __future__ import annotations

import numpy as np
from tvm import te, tirx, topi

from kope_tvm.operators.operator import Node, Operator, Parameters
from kope_tvm.tensor_spec import TensorSpec

BLOCK = 32
"""Elements that are summed among themselves before the blocks before them are added."""


def _inputs(p: Parameters) -> tuple[TensorSpec, ...]:
    return (TensorSpec("X", p.shape("m n"), p.dtype),)


def _compute(p: Parameters, data: te.Tensor) -> te.Tensor:
    rows, columns = p.shape("m n")
    block = min(BLOCK, columns)
    blocks, zero = -(-columns // block), tirx.const(0, p.dtype)
    if columns % block:
        data = topi.nn.pad(data, (0, 0), (0, blocks * block - columns))
    k, c = te.reduce_axis((0, block), name="k"), te.reduce_axis((0, blocks), name="c")
    within = te.compute(
        (rows, blocks, block),
        lambda i, b, j: te.sum(tirx.Select(k <= j, data[i, b * block + k], zero), axis=k),
        name="within",
    )
    before = te.compute(
        (rows, blocks),
        lambda i, b: te.sum(tirx.Select(c < b, within[i, c, block - 1], zero), axis=c),
        name="before",
    )
    return te.compute(
        (rows, columns),
        lambda i, j: within[i, j // block, j % block] + before[i, j // block],
        name="cumsum",
    )


CUMSUM = Operator(
    name="cumsum",
    summary="Y[m, n] = running sums of X[m, n] along n",
    sizes={"m": 256, "n": 1024},
    inputs=_inputs,
    compute=_compute,
    nodes=lambda _: (
        Node("Constant", (), "axis", {"value": np.array(1, np.int64)}),
        Node("CumSum", ("X", "axis"), "out"),
    ),
    evaluate=lambda _, x: x.cumsum(axis=-1),
)
OPERATORS = (CUMSUM,)
