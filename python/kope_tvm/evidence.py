# SPDX-License-Identifier: Apache-2.0
"""What is known of a compiled model beside its code: what made it, and what it should compute."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from kope_tvm.tensor_spec import TensorSpec

if TYPE_CHECKING:
    from tvm import IRModule

    from kope_tvm.target import TargetSpec

_GRID = 128


@dataclass(frozen=True)
class Example:
    """One call of one function, its inputs those of `example_input`."""

    function: str
    outputs: tuple[np.ndarray, ...] = field(repr=False)
    """Of the function as it came, compiled for this machine."""


@dataclass(frozen=True)
class Workload:
    """What was compiled, and for what."""

    mod: IRModule
    """The functions as they came, before any schedule."""
    target: TargetSpec


@dataclass(frozen=True)
class Evidence:
    """What travels with an exported model."""

    made_by: tuple[str, ...]
    """Lines for a reader: versions, target, records, gates passed."""
    examples: tuple[Example, ...] = ()
    onnx: bytes | None = field(default=None, repr=False)
    """The model as ONNX Runtime takes it; None where there is none."""
    workload: Workload | None = field(default=None, repr=False)
    """For exporters that say schedules themselves."""


def example_input(spec: TensorSpec, number: int) -> np.ndarray:
    """The values of input `number`, which a C program makes anew: a hash of their position.

    Floats are n/128 in [-1, 1], exact in every float dtype; 8-bit integers are any, wider ones 0
    or 1, as they mostly are indices.
    """
    hashed = _hashed(np.arange(spec.num_elements, dtype=np.uint64), number)
    if spec.dtype in ("int8", "uint8"):
        return (hashed & 255).astype(np.uint8).view(spec.dtype).reshape(spec.shape)
    if spec.dtype.startswith(("int", "uint", "bool")):
        return (hashed & 1).astype(spec.dtype).reshape(spec.shape)
    grid = (hashed % (2 * _GRID + 1)).astype(np.float32) - _GRID
    return (grid / _GRID).astype(_numpy_dtype(spec.dtype)).reshape(spec.shape)


def _hashed(position: np.ndarray, number: int) -> np.ndarray:
    """32 mixed bits a position: multiply, fold, twice over."""
    mask = np.uint64(0xFFFFFFFF)
    found = (position + np.uint64(number * 0x9E3779B9)) * np.uint64(0x85EBCA6B) & mask
    found = (found ^ (found >> np.uint64(15))) * np.uint64(0xC2B2AE35) & mask
    mixed: np.ndarray = found ^ (found >> np.uint64(16))
    return mixed


def _numpy_dtype(dtype: str) -> Any:
    if dtype != "bfloat16":
        return np.dtype(dtype)
    import ml_dtypes

    return np.dtype(ml_dtypes.bfloat16)
