# SPDX-License-Identifier: Apache-2.0
"""Arguments to time functions with, the same for every contender."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tvm

from kope_tvm.operators.operator import BoundOperator

Array = np.ndarray[Any, Any]


def random_arguments(mod: tvm.IRModule, seed: int = 0) -> list[Array]:
    """One array a parameter of `main`, outputs included: uniform in [-1, 1], or small integers."""
    generator = np.random.default_rng(seed)
    return [
        _random(generator, tuple(int(extent) for extent in param.shape), str(param.dtype))
        for param in mod["main"].params
    ]


def module_arguments(mod: tvm.IRModule, inputs: Mapping[str, Array] | None) -> list[Array]:
    """The inputs by name, what has none in them as `random_arguments` makes it."""
    made = random_arguments(mod)
    given = inputs or {}
    return [given.get(str(p.name), one) for p, one in zip(mod["main"].params, made, strict=True)]


def operator_inputs(bound: BoundOperator, seed: int = 0) -> dict[str, Array]:
    """Uniform in [-1, 1], all of an eight-bit integer's range, indices within their limits."""
    generator = np.random.default_rng(seed)
    limits = bound.operator.limits
    found: dict[str, Array] = {}
    for spec in bound.inputs:
        dtype = np.dtype(spec.dtype)
        if spec.name in limits:
            found[spec.name] = generator.integers(
                0, bound.parameters[limits[spec.name]], spec.shape
            )
        elif dtype.kind in "iu" and dtype.itemsize == 1:
            info = np.iinfo(dtype)
            found[spec.name] = generator.integers(info.min, info.max + 1, spec.shape)
        else:
            found[spec.name] = _random(generator, spec.shape, spec.dtype)
        found[spec.name] = found[spec.name].astype(dtype)
    return found


def _random(generator: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    if "int" in dtype:
        return generator.integers(0, 8, shape).astype(dtype)
    return generator.uniform(-1, 1, shape).astype(dtype)
