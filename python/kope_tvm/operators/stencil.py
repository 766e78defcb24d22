# SPDX-License-Identifier: Apache-2.0
"""Stencils: one step of the heat equation on a grid with cold borders."""

from __future__ import annotations

from itertools import product

import numpy as np
from tvm import te, tirx, topi

from kope_tvm.operators.operator import Node, Operator, Parameters
from kope_tvm.tensor_spec import TensorSpec

_CENTRE = 0.5


def _grid(p: Parameters) -> tuple[int, ...]:
    return p.shape("d h w") if "d" in p.sizes else p.shape("h w")


def _taps(num_axes: int) -> np.ndarray:
    """Weights of an element and its direct neighbours; they add up to 1."""
    taps = np.zeros((3,) * num_axes)
    for place in product(range(3), repeat=num_axes):
        if sum(at != 1 for at in place) == 1:
            taps[place] = (1 - _CENTRE) / (2 * num_axes)
    taps[(1,) * num_axes] = _CENTRE
    return taps


def _inputs(p: Parameters) -> tuple[TensorSpec, ...]:
    return (TensorSpec("X", (1, 1, *_grid(p)), p.dtype),)


def _compute(p: Parameters, data: te.Tensor) -> te.Tensor:
    grid = _grid(p)
    rim = (0, 0, *[1] * len(grid))
    padded = topi.nn.pad(data, rim, rim)
    taps = _taps(len(grid))

    def step(*index: te.IterVar) -> te.Tensor:
        found = [
            padded[(0, 0, *(at + by for at, by in zip(index[2:], place, strict=True)))]
            * tirx.const(taps[place], p.dtype)
            for place in product(range(3), repeat=len(grid))
            if taps[place]
        ]
        return sum(found[1:], found[0])

    return te.compute((1, 1, *grid), step, name="step")


def _nodes(p: Parameters) -> tuple[Node, ...]:
    num_axes = len(_grid(p))
    weights = _taps(num_axes).astype(p.dtype)[None, None]
    return (
        Node("Constant", (), "taps", {"value": weights}),
        Node("Conv", ("X", "taps"), "out", {"pads": [1] * 2 * num_axes}),
    )


def _evaluate(p: Parameters, data: np.ndarray) -> np.ndarray:
    grid = _grid(p)
    padded = np.pad(data, ((0, 0), (0, 0), *[(1, 1)] * len(grid)))
    taps = _taps(len(grid)).astype(data.dtype)
    out = np.zeros_like(data)
    for place in product(range(3), repeat=len(grid)):
        part = tuple(slice(by, by + extent) for by, extent in zip(place, grid, strict=True))
        out += padded[(slice(None), slice(None), *part)] * taps[place]
    return out


HEAT2D = Operator(
    name="heat2d",
    summary="Y[1, 1, h, w] = X / 2 + the four neighbours / 8",
    sizes={"h": 1024, "w": 1024},
    inputs=_inputs,
    compute=_compute,
    nodes=_nodes,
    evaluate=_evaluate,
)
HEAT3D = Operator(
    name="heat3d",
    summary="Y[1, 1, d, h, w] = X / 2 + the six neighbours / 12",
    sizes={"d": 64, "h": 96, "w": 96},
    inputs=_inputs,
    compute=_compute,
    nodes=_nodes,
    evaluate=_evaluate,
)
OPERATORS = (HEAT2D, HEAT3D)
