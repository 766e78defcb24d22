# SPDX-License-Identifier: Apache-2.0
"""How far an output is from the untuned function's, in units of the allowed error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_TOLERANCE = {"float16": 2e-2, "bfloat16": 2e-2, "float32": 1e-3, "float64": 1e-7}
_COARSE_TOLERANCE = 1.3e-1
"""Of the eight-bit floats, which carry two or three bits of mantissa."""


@dataclass(frozen=True)
class Mismatch:
    """The worst element of an output."""

    error: float
    """Over the allowed one: more than 1 is wrong."""
    place: str
    """`max_rel 3.1e-2 at [63, 12]`."""


def compare(actual: Array, expected: Array) -> Mismatch:
    """The worst mismatch: `|err| <= rtol * |ref| + rtol * rms(ref)`; integers and NaN exactly."""
    if expected.size == 0:
        return Mismatch(0.0, "empty")
    if expected.dtype.kind in "biu":
        ratio = np.where(actual == expected, 0.0, np.inf)
        scale = np.maximum(np.abs(expected.astype(np.float64)), 1.0)
    else:
        ratio, scale = _float_ratio(actual, expected)
    worst = np.unravel_index(int(np.argmax(ratio)), ratio.shape)
    return _describe(actual, expected, worst, float(ratio[worst]), float(scale[worst]))


def _float_ratio(actual: Array, expected: Array) -> tuple[Array, Array]:
    tolerance = _TOLERANCE.get(str(expected.dtype), _COARSE_TOLERANCE)
    got, want = actual.astype(np.float64), expected.astype(np.float64)
    finite = want[np.isfinite(want)]
    rms = float(np.sqrt(np.mean(finite**2))) if finite.size else 0.0
    scale = np.where(np.isfinite(want), np.abs(want), 0.0) + rms
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        ratio = np.abs(got - want) / (tolerance * scale)
    ratio = np.where(np.isnan(ratio) | ~np.isfinite(want), np.inf, ratio)
    return np.where(same, 0.0, ratio), scale


def _describe(
    actual: Array, expected: Array, worst: tuple[Any, ...], ratio: float, scale: float
) -> Mismatch:
    got, want = float(actual[worst]), float(expected[worst])
    where = f"at {[int(axis) for axis in worst]}"
    if not (np.isfinite(got) and np.isfinite(want) and scale > 0):
        return Mismatch(ratio, f"{got:.6g} for {want:.6g} {where}")
    return Mismatch(ratio, f"max_rel {abs(got - want) / scale:.1e} {where}")
