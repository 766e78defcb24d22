# SPDX-License-Identifier: Apache-2.0
"""How wrong an output may be, a line a dtype: the one table that the numerics gate goes by.

The truth is the untuned function computed in float64. A candidate may be `factor` times as far from
it as the untuned function is, and `floor` in any case, but never further than `cap`: there all
zeros would begin to pass. Where the untuned function is itself further off than that (a float16
sum of 4096 ones is 2048 on TVM), a candidate is right that is near to either.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_SPREAD = 2.0**10
"""Numbers this many times smaller than the root mean square are compared with it instead."""
_HEADROOM = 8.0
"""Sums on the way are this much larger than the largest output, at most."""
_CHUNK = 1 << 14
_SAMPLES = 1 << 16
"""Elements whose size is looked at."""
_FLIPPED = 1e-2
"""Of rounded integers: another order of summation tips a few over the edge."""


@dataclass(frozen=True)
class Policy:
    """What holds for the outputs of one dtype; errors are relative to `|truth| + scale`."""

    eps: float
    factor: float
    floor: float
    cap: float
    wide_bits: int
    """Wide-exponent inputs lie between 2^-wide_bits and 2^wide_bits times a normal one."""

    def allowed(self, untuned_error: float) -> float:
        """The relative error a candidate may have."""
        return min(max(self.factor * untuned_error, self.floor), self.cap)


def _binary(bits: int, factor: float, floor_eps: float, cap: float, wide_bits: int) -> Policy:
    eps = 2.0**-bits
    return Policy(eps, factor, floor_eps * eps, cap, wide_bits)


_POLICIES = {
    # There is no wider truth: only another order of summation tells the two apart.
    "float64": _binary(52, 4, 4096, 1e-7, 8),
    # A softmax of numbers far apart is right to a thousandth in any order.
    "float32": _binary(23, 4, 64, 4e-3, 6),
    # Narrow accumulators lose more than the last rounding: the untuned function says how much.
    "float16": _binary(10, 2, 4, 0.125, 2),
    "bfloat16": _binary(7, 2, 2, 0.125, 4),
}
_EIGHT_BITS = _binary(3, 2, 1, 0.25, 2)
UNLIFTED = {"float64": 1e-7, "float32": 1e-3, "float16": 2e-2, "bfloat16": 4e-2}
"""The relative error allowed where the untuned function had to be the truth itself."""


def policy_of(dtype: str) -> Policy | None:
    """The policy of a float dtype; None for integers, which are compared exactly."""
    if not dtype.startswith(("float", "bfloat")):
        return None
    return _POLICIES.get(dtype, _EIGHT_BITS)


@dataclass(frozen=True)
class Allowed:
    """What one output may differ by in one case: `rtol * (|expected| + scale)`."""

    rtol: float = 0.0
    """0: the same number, NaN for NaN."""
    scale: float = 0.0
    steps: int = 0
    """Of integers rounded from floats: so far off, in one element of a hundred."""

    @property
    def flipped(self) -> float:
        """The share of elements that may be `steps` off."""
        return _FLIPPED


@dataclass(frozen=True)
class Expected:
    """What one output of one case is compared with."""

    values: Array
    allowed: Allowed
    other: Array | None = None
    """The untuned function's own output where that is further from the truth than is allowed."""


def expected(untuned: Array, truth: Array | None, dtype: str, *, is_integers: bool) -> Expected:
    """What a candidate's output is compared with; `truth` is float64, None where there is none.

    Where the untuned function says NaN or infinity, so must a candidate.
    """
    policy = policy_of(dtype)
    if policy is None:
        is_rounded = truth is not None and untuned.dtype.itemsize == 1 and dtype != "bool"
        return Expected(untuned, Allowed(steps=int(is_rounded)))
    scale = typical(untuned if truth is None else truth, untuned.dtype)
    if truth is None:
        return Expected(untuned, Allowed(UNLIFTED.get(dtype, policy.cap), scale))
    ours = untuned.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        values = np.where(np.isfinite(ours), truth, ours).astype(untuned.dtype)
        # A truth that rounds to infinity is the untuned function's last finite number.
        values = np.where(np.isfinite(values) == np.isfinite(untuned), values, untuned)
    if is_integers and _is_exact(ours, truth, policy):
        return Expected(untuned, Allowed(scale=scale))
    error = worst(ours, truth, scale)
    rtol = policy.allowed(error)
    return Expected(values, Allowed(rtol, scale), untuned if error > rtol else None)


def worst(got: Array, truth: Array, scale: float) -> float:
    """The largest relative error where both are finite."""
    ours, right = got.reshape(-1), truth.reshape(-1)
    found = 0.0
    for start in range(0, right.size, _CHUNK):  # What stays in the cache takes a fifth of the time.
        mine, true = ours[start : start + _CHUNK], right[start : start + _CHUNK]
        with np.errstate(invalid="ignore", over="ignore"):
            ratio = np.abs(mine - true) / (np.abs(true) + scale)
        finite = np.isfinite(mine) & np.isfinite(ratio)
        found = max(found, float(ratio[finite].max(initial=0.0)))
    return found


def typical(values: Array, dtype: np.dtype[Any]) -> float:
    """The size of the numbers: a median where they are spread wide; 0 of nothing but zeros."""
    flat = values.reshape(-1)
    sizes = np.abs(flat[:: max(1, flat.size // _SAMPLES)].astype(np.float64))
    sizes = sizes[np.isfinite(sizes) & (sizes > 0)]
    if not sizes.size:
        sizes = np.abs(flat.astype(np.float64))
        sizes = sizes[np.isfinite(sizes) & (sizes > 0)]
    if not sizes.size:
        return 0.0
    with np.errstate(over="ignore"):
        mean = float(np.sqrt(np.mean(np.square(sizes))))
    mean = mean if np.isfinite(mean) else float(sizes.max())
    return max(float(np.median(sizes)), mean / _SPREAD, _least(dtype))


def _least(dtype: np.dtype[Any]) -> float:
    """Below it numbers may be flushed to zero."""
    if dtype.kind != "f":
        return 0.0
    info = np.finfo(dtype)
    return float(info.tiny) / float(info.eps)


def _is_exact(got: Array, truth: Array, policy: Policy) -> bool:
    """Whether every sum on the way was a number of the dtype, whatever the order."""
    largest = float(np.max(np.abs(truth), initial=0.0))
    return largest * _HEADROOM < 2.0 / policy.eps and np.array_equal(got, truth)
