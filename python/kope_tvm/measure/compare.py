# SPDX-License-Identifier: Apache-2.0
"""How far an output is from what is expected, in units of the allowed error."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np

from kope_tvm.measure.policy import Allowed, Array

_FLOAT32_BYTES = 4
_libc = ctypes.CDLL(None)
_CHUNK = 1 << 13
"""Elements at a time, so that what lies between stays in the cache."""


@dataclass(frozen=True)
class Mismatch:
    """The worst element of an output."""

    error: float
    """Over the allowed one: more than 1 is wrong."""
    place: str
    """`max_rel 3.1e-2 at [63, 12]`."""


def compare(actual: Array, expected: Array, allowed: Allowed) -> Mismatch:
    """The worst mismatch: `|err| <= rtol * (|expected| + scale)`; NaN for NaN."""
    if expected.size == 0:
        return Mismatch(0.0, "empty")
    got, want = actual.reshape(-1), expected.reshape(-1)
    error, worst, flipped = -1.0, 0, 0
    for start in range(0, want.size, _CHUNK):
        chunk = slice(start, start + _CHUNK)
        ratio = error_ratios(got[chunk], want[chunk], allowed)
        at = int(np.argmax(ratio))
        if ratio[at] > error:
            error, worst = float(ratio[at]), start + at
        flipped += int(np.count_nonzero(ratio)) if allowed.steps else 0
    where = np.unravel_index(worst, expected.shape)
    if flipped > allowed.flipped * want.size:
        return Mismatch(
            float("inf"), f"{flipped} of {want.size} rounded apart, one at {_at(where)}"
        )
    return _describe(actual, expected, where, error, allowed)


def error_ratios(actual: Array, expected: Array, allowed: Allowed) -> Array:
    """Of every element, the error over the allowed one: more than 1 is wrong."""
    if allowed.steps:
        off = np.abs(actual.astype(np.int64) - expected.astype(np.int64))
        return off / allowed.steps
    if not allowed.rtol:
        same = (actual == expected) | ((actual != actual) & (expected != expected))
        return np.where(same, 0.0, np.inf)
    return _float_ratios(actual, expected, allowed)


def _float_ratios(actual: Array, expected: Array, allowed: Allowed) -> Array:
    # float32 is exact enough for a ratio, and half the work.
    wide = np.dtype(np.float64 if expected.dtype.itemsize > _FLOAT32_BYTES else np.float32)
    got: Array = actual.astype(wide, copy=False)
    want: Array = expected.astype(wide, copy=False)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        distance: Array = np.abs(got - want)
        ratio: Array = distance / (allowed.rtol * (np.abs(want) + allowed.scale))
    if allowed.scale and np.isfinite(distance).all():
        return ratio
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    ratio = np.where(np.isnan(ratio) | ~np.isfinite(want), np.inf, ratio)
    return np.where(same, 0.0, ratio)


def _describe(
    actual: Array, expected: Array, worst: tuple[Any, ...], ratio: float, allowed: Allowed
) -> Mismatch:
    got, want = float(actual[worst]), float(expected[worst])
    scale = abs(want) + allowed.scale
    if not (np.isfinite(got) and np.isfinite(want) and scale > 0):
        return Mismatch(ratio, f"{got:.6g} for {want:.6g} at {_at(worst)}")
    return Mismatch(ratio, f"max_rel {abs(got - want) / scale:.1e} at {_at(worst)}")


def _at(where: tuple[Any, ...]) -> str:
    return str([int(axis) for axis in where])


def same_bits(one: Array, other: Array) -> bool:
    """Whether two arrays of a dtype and a shape hold the same."""
    one, other = np.ascontiguousarray(one), np.ascontiguousarray(other)
    return not _libc.memcmp(
        ctypes.c_void_p(one.ctypes.data),
        ctypes.c_void_p(other.ctypes.data),
        ctypes.c_size_t(one.nbytes),
    )


def first_difference(one: Array, other: Array) -> list[int]:
    """Where two arrays first differ in their bits."""
    size = max(one.dtype.itemsize, 1)
    apart = np.flatnonzero(_bytes(one) != _bytes(other))[0] // size
    return [int(axis) for axis in np.unravel_index(apart, one.shape)]


def _bytes(array: Array) -> Array:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
