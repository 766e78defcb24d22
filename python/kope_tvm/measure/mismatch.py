# SPDX-License-Identifier: Apache-2.0
"""Where an output is wrong, in words: what tells a tail from a transposed tile from no result."""

from __future__ import annotations

import numpy as np

from kope_tvm.measure.compare import error_ratios
from kope_tvm.measure.policy import Allowed, Array

_PERIODS = (2, 4, 8, 16, 32, 64)


def mismatch_map(actual: Array, expected: Array, poison: Array, allowed: Allowed) -> str:
    """E.g. `wrong 6.2% of [81, 41]: axis 0 only 64..80, axis 1 all; never written`.

    `poison` is what every element held before the call. Empty where nothing is wrong.
    """
    wrong = error_ratios(actual, expected, allowed) > 1
    if not wrong.any():
        return ""
    axes = [_axis(number, wrong) for number in range(wrong.ndim)]
    where = ", ".join(axes) or "the only element"
    shape = list(expected.shape)
    return f"wrong {wrong.mean():.2g} of {shape}: {where}{_what(actual, expected, poison, wrong)}"


def _axis(number: int, wrong: Array) -> str:
    """The indices along one axis at which anything is wrong."""
    others = tuple(axis for axis in range(wrong.ndim) if axis != number)
    found = np.flatnonzero(wrong.any(axis=others))
    extent = wrong.shape[number]
    if found.size == extent:
        return f"axis {number} all"
    first, last = int(found[0]), int(found[-1])
    if found.size == last - first + 1:
        return f"axis {number} only {first}..{last}"
    return f"axis {number} {_pattern(found, extent)}"


def _pattern(found: Array, extent: int) -> str:
    """Indices that lie apart: every so-manieth, or some of a range."""
    for period in _PERIODS:
        rests = np.unique(found % period)
        if rests.size < period and found.size == np.isin(np.arange(extent) % period, rests).sum():
            return f"where i % {period} in {[int(rest) for rest in rests]}"
    return f"{found.size} indices in {int(found[0])}..{int(found[-1])}"


def _what(actual: Array, expected: Array, poison: Array, wrong: Array) -> str:
    got = actual[wrong]
    if np.array_equal(_bits(got), _bits(np.broadcast_to(poison, got.shape))):
        return "; never written"
    if not got.astype(np.float64).any():
        return "; all zeros there"
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        ratio = got.astype(np.float64) / expected[wrong].astype(np.float64)
    if np.isfinite(ratio).all() and np.allclose(ratio, ratio.flat[0], rtol=1e-2):
        return f"; there {ratio.flat[0]:.3g} times the right value"
    return ""


def _bits(values: Array) -> Array:
    return np.ascontiguousarray(values).reshape(-1).view(np.uint8)
