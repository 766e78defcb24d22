# SPDX-License-Identifier: Apache-2.0
"""The largest elements of every row, one round an element."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm import te, tirx, topi

from kope_tvm.operators.operator import Node, Operator, Parameters
from kope_tvm.tensor_spec import TensorSpec


def _inputs(p: Parameters) -> tuple[TensorSpec, ...]:
    return (TensorSpec("X", p.shape("m n"), p.dtype),)


def _compute(p: Parameters, data: te.Tensor) -> te.Tensor:
    """Each round takes the largest element that comes after the one before, equal ones by place."""
    found: list[Sequence[te.Tensor]] = []
    for number in range(p["k"]):
        found.append(_round(number, data, found[-1:], p))
    return topi.stack([values for _, values in found], axis=1)


def _round(
    number: int, data: te.Tensor, before: Sequence[Sequence[te.Tensor]], p: Parameters
) -> Sequence[te.Tensor]:
    """Place and value of each row's next largest element."""
    larger = te.comm_reducer(_larger, _nothing, name="larger")
    j = te.reduce_axis((0, p["n"]), name="j")

    def row(i: te.IterVar) -> Any:
        return larger((j, _open(data[i, j], i, j, before, p.dtype)), axis=j)

    found: Sequence[te.Tensor] = te.compute(p.shape("m"), row, name=f"round{number}")
    return found


def _larger(left: Any, right: Any) -> tuple[Any, Any]:
    wins = tirx.any(left[1] > right[1], tirx.all(left[1] == right[1], left[0] < right[0]))
    return tirx.Select(wins, left[0], right[0]), tirx.Select(wins, left[1], right[1])


def _nothing(index_dtype: str, dtype: str) -> tuple[Any, Any]:
    return tirx.const(2**31 - 1, index_dtype), tirx.min_value(dtype)


def _open(value: Any, i: Any, j: Any, before: Sequence[Sequence[te.Tensor]], dtype: str) -> Any:
    """The element where it was not taken before, the least number elsewhere."""
    if not before:
        return value
    ((place, largest),) = before
    is_after = tirx.all(value == largest[i], j > place[i])
    return tirx.Select(tirx.any(value < largest[i], is_after), value, tirx.min_value(dtype))


def _nodes(p: Parameters) -> tuple[Node, ...]:
    return (
        Node("Constant", (), "k", {"value": np.array([p["k"]], np.int64)}),
        Node("TopK", ("X", "k"), "out", {"axis": -1}, more_outputs=("places",)),
    )


TOP_K = Operator(
    name="top_k",
    summary="Y[m, k] = the k largest of X[m, n], largest first",
    sizes={"m": 1024, "n": 128, "k": 4},
    inputs=_inputs,
    compute=_compute,
    nodes=_nodes,
    evaluate=lambda p, x: -np.sort(-x, axis=-1)[:, : p["k"]],
)
OPERATORS = (TOP_K,)
