# SPDX-License-Identifier: Apache-2.0
"""How far an output is from the untuned function's, in units of the allowed error."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_TOLERANCE = {"float16": 2e-2, "bfloat16": 2e-2, "float32": 1e-3, "float64": 1e-7}
_COARSE_TOLERANCE = 1.3e-1
"""Of the eight-bit floats, which carry two or three bits of mantissa."""
_CHUNK = 1 << 13
"""Elements at a time, so that what lies between stays in the cache."""


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
    got, want = actual.reshape(-1), expected.reshape(-1)
    is_exact = expected.dtype.kind in "biu"
    rms = 0.0 if is_exact else _rms(want)
    error, worst, scale = -1.0, 0, 0.0
    for start in range(0, want.size, _CHUNK):
        chunk = slice(start, start + _CHUNK)
        ratio, scales = (
            _exact_ratio(got[chunk], want[chunk])
            if is_exact
            else _float_ratio(got[chunk], want[chunk], rms)
        )
        at = int(np.argmax(ratio))
        if ratio[at] > error:
            error, worst, scale = float(ratio[at]), start + at, float(scales[at])
    where = np.unravel_index(worst, expected.shape)
    return _describe(actual, expected, where, error, scale)


def error_ratios(actual: Array, expected: Array) -> Array:
    """Of every element, the error over the allowed one: more than 1 is wrong."""
    if expected.dtype.kind in "biu":
        return _exact_ratio(actual, expected)[0]
    return _float_ratio(actual, expected, _rms(expected.reshape(-1)))[0]


def _exact_ratio(got: Array, want: Array) -> tuple[Array, Array]:
    ratio = np.where(got == want, 0.0, np.inf)
    return ratio, np.maximum(np.abs(want.astype(np.float64)), 1.0)


def _rms(values: Array) -> float:
    """Of the finite ones."""
    total, count = 0.0, 0
    for start in range(0, values.size, _CHUNK):
        chunk = values[start : start + _CHUNK].astype(np.float64)
        finite = chunk[np.isfinite(chunk)]
        total += float(np.dot(finite, finite))
        count += finite.size
    return math.sqrt(total / count) if count else 0.0


def _float_ratio(actual: Array, expected: Array, rms: float) -> tuple[Array, Array]:
    tolerance = _TOLERANCE.get(str(expected.dtype), _COARSE_TOLERANCE)
    got, want = actual.astype(np.float64), expected.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        distance = np.abs(got - want)
    if rms and np.isfinite(distance).all():
        scale = np.abs(want) + rms
        return distance / (tolerance * scale), scale
    scale = np.where(np.isfinite(want), np.abs(want), 0.0) + rms
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = distance / (tolerance * scale)
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
