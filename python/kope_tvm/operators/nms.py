# SPDX-License-Identifier: Apache-2.0
"""Suppression of boxes that overlap a better one, all at once, as detectors end with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from tvm import te, tirx

from kope_tvm.operators.operator import Node, Operator, Parameters
from kope_tvm.tensor_spec import TensorSpec

THRESHOLD = 0.45
"""Of intersection over union, from which the worse box goes."""


def _inputs(p: Parameters) -> tuple[TensorSpec, ...]:
    """Left, top, width and height less one as four rows: sizes of at least 0 for any input."""
    return (TensorSpec("B", (4, p["n"]), p.dtype), TensorSpec("S", p.shape("n"), p.dtype))


def _compute(p: Parameters, boxes: te.Tensor, scores: te.Tensor) -> te.Tensor:
    """Intersection and union are compared without a division: boxes of no size overlap nothing."""
    j = te.reduce_axis((0, p["n"]), name="j")
    zero = te.const(0.0, p.dtype)

    def side(at: int, i: Any) -> Any:
        low = tirx.Max(boxes[at, i], boxes[at, j])
        high = tirx.Min(_end(boxes, at, i, p.dtype), _end(boxes, at, j, p.dtype))
        return tirx.Max(high - low, zero)

    def beaten(i: Any) -> Any:
        both = side(0, i) * side(1, i)
        union = _area(boxes, i, p.dtype) + _area(boxes, j, p.dtype) - both
        over = both - union * te.const(THRESHOLD, p.dtype)
        return te.max(tirx.Select(scores[j] > scores[i], over, te.const(-1.0, p.dtype)), axis=j)

    overlap = te.compute(p.shape("n"), beaten, name="overlap")
    return te.compute(
        p.shape("n"), lambda i: tirx.Select(overlap[i] > zero, zero, scores[i]), name="kept"
    )


def _end(boxes: te.Tensor, at: int, i: Any, dtype: str) -> Any:
    return boxes[at, i] + (boxes[at + 2, i] + te.const(1.0, dtype))


def _area(boxes: te.Tensor, i: Any, dtype: str) -> Any:
    one = te.const(1.0, dtype)
    return (boxes[2, i] + one) * (boxes[3, i] + one)


def _nodes(p: Parameters) -> tuple[Node, ...]:
    return tuple(_spelled(p))


def _spelled(p: Parameters) -> Iterator[Node]:
    numbers = {"zero": 0.0, "one": 1.0, "minus": -1.0, "threshold": THRESHOLD}
    for name, value in numbers.items():
        yield Node("Constant", (), name, {"value": np.array(value, p.dtype)})
    for name, shape in (("rows", [1, -1]), ("columns", [-1, 1]), ("flat", [-1])):
        yield Node("Constant", (), name, {"value": np.array(shape, np.int64)})
    for at in range(4):
        yield Node("Constant", (), f"at{at}", {"value": np.array(at, np.int64)})
        yield Node("Gather", ("B", f"at{at}"), f"b{at}", {"axis": 0})
    for at in (0, 1):
        yield Node("Add", (f"b{at + 2}", "one"), f"size{at}")
        yield Node("Add", (f"b{at}", f"size{at}"), f"end{at}")
        yield from _pairs("Max", f"b{at}", f"low{at}")
        yield from _pairs("Min", f"end{at}", f"high{at}")
        yield Node("Sub", (f"high{at}", f"low{at}"), f"side{at}")
        yield Node("Max", (f"side{at}", "zero"), f"inside{at}")
    yield Node("Mul", ("inside0", "inside1"), "both")
    yield Node("Mul", ("size0", "size1"), "area")
    yield from _pairs("Add", "area", "areas")
    yield Node("Sub", ("areas", "both"), "union")
    yield Node("Mul", ("union", "threshold"), "allowed")
    yield Node("Sub", ("both", "allowed"), "over")
    yield from _pairs("Greater", "S", "better", swapped=True)
    yield Node("Where", ("better", "over", "minus"), "counted")
    yield Node("ReduceMax", ("counted",), "overlap", {"axes": [1], "keepdims": 0})
    yield Node("Greater", ("overlap", "zero"), "beaten")
    yield Node("Where", ("beaten", "zero", "S"), "out")


def _pairs(operator: str, name: str, output: str, *, swapped: bool = False) -> Iterator[Node]:
    """An operator on every pair, the first of it along rows; `swapped` has the second first."""
    yield Node("Reshape", (name, "columns"), f"{output}.column")
    yield Node("Reshape", (name, "rows"), f"{output}.row")
    sides = (f"{output}.column", f"{output}.row")
    yield Node(operator, sides[::-1] if swapped else sides, output)


def _evaluate(p: Parameters, boxes: np.ndarray, scores: np.ndarray) -> np.ndarray:
    one = boxes.dtype.type(1)
    low, size = boxes[:2], boxes[2:] + one
    ends = low + size
    inside = np.minimum(ends[:, :, None], ends[:, None]) - np.maximum(low[:, :, None], low[:, None])
    both = np.prod(np.maximum(inside, 0), axis=0)
    area = size[0] * size[1]
    over = both - (area[:, None] + area[None] - both) * boxes.dtype.type(THRESHOLD)
    worse = scores[None] > scores[:, None]
    beaten = np.where(worse, over, -1).max(axis=1) > 0
    return np.where(beaten, 0, scores).astype(scores.dtype)


NMS = Operator(
    name="nms",
    summary="Y[n] = S[n], or 0 where box n of B[4, n] overlaps a better one by more than 0.45",
    sizes={"n": 1024},
    inputs=_inputs,
    compute=_compute,
    nodes=_nodes,
    evaluate=_evaluate,
    dtypes=("float32",),
)
OPERATORS = (NMS,)
