# SPDX-License-Identifier: Apache-2.0
"""Random arguments for a PrimFunc, the same for every contender."""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm


def random_arguments(mod: tvm.IRModule, seed: int = 0) -> list[np.ndarray[Any, Any]]:
    """One array a parameter of `main`, outputs included: uniform in [-1, 1], or small integers."""
    generator = np.random.default_rng(seed)
    return [
        _random(generator, tuple(int(extent) for extent in param.shape), str(param.dtype))
        for param in mod["main"].params
    ]


def _random(
    generator: np.random.Generator, shape: tuple[int, ...], dtype: str
) -> np.ndarray[Any, Any]:
    if "int" in dtype:
        return generator.integers(0, 8, shape).astype(dtype)
    return generator.uniform(-1, 1, shape).astype(dtype)
