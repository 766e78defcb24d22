# SPDX-License-Identifier: Apache-2.0
"""What a function is timed with: one value an argument, on the device that runs it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tvm

from kope_tvm.measure import signature
from kope_tvm.measure.inputs import Distribution, contents
from kope_tvm.measure.job import Argument, Use


def random_values(arguments: Sequence[Argument], seed: int, device: Any) -> list[Any]:
    """Uniform contents for every argument, the same for the same seed."""
    rng = np.random.default_rng(seed)
    return [_random_value(argument, rng, device) for argument in arguments]


def tensor_of(argument: Argument, array: Any, device: Any) -> Any:
    """A tensor on the device that holds the array."""
    tensor = tvm.runtime.empty(argument.shape, argument.dtype, device)
    if array.size:
        tensor.copyfrom(array)
    return tensor


def _random_value(argument: Argument, rng: np.random.Generator, device: Any) -> Any:
    if argument.use is Use.SCALAR:
        return signature.scalar_value(argument.dtype)
    dtype = signature.host_dtype(argument.dtype)
    return tensor_of(argument, contents(argument, dtype, Distribution.UNIFORM, rng, 0), device)
