# SPDX-License-Identifier: Apache-2.0
"""What a function is called with: numbers that bring out what another schedule may get wrong."""

from __future__ import annotations

from enum import Enum
from typing import Any

import numpy as np

from kope_tvm.measure.job import Argument
from kope_tvm.measure.policy import Array, policy_of

_POISON_BYTE = 0xCC
_SMALL = 2
"""Integers in [-2, 2]: exact in every accumulator, in every order of summation."""
_PLAIN = 8
_WIDE_BITS = 7
"""Of integers that are 16 bits or wider: products of two are summed in 32 bits."""
_SPECIAL_SHARE = 0.05
_ENDS_SHARE = 0.1
"""Only `-128 * -128` does not fit where a product is clamped to two bytes and their halves."""
_SPECIALS = (np.nan, np.inf, -np.inf, -0.0, 0.0)


class Distribution(str, Enum):
    """How the numbers of one case lie."""

    UNIFORM = "uniform"
    """In [-1, 1), and in [0, 1) of an odd seed: sums of those do not cancel. Eight-bit integers
    in all of their range, its ends more often than the rest.
    """
    WIDE = "wide"
    """Normal, with exponents far apart."""
    INTEGERS = "integers"
    """In [-2, 2], whatever the dtype."""
    SPECIAL = "special"
    """Uniform, with NaN, infinities and negative zeros in between."""


def contents(
    argument: Argument, dtype: np.dtype[Any], how: Distribution, rng: np.random.Generator, seed: int
) -> Array:
    """The numbers of one tensor; those that address another stay in its bounds."""
    shape = argument.shape
    if argument.index_limit:
        return rng.integers(0, argument.index_limit, shape).astype(dtype)
    if argument.dtype == "bool":
        return rng.integers(0, 2, shape).astype(dtype)
    if how is Distribution.INTEGERS:
        low = 0 if argument.dtype.startswith("uint") else -_SMALL
        return rng.integers(low, _SMALL + 1, shape).astype(dtype)
    policy = policy_of(argument.dtype)
    if policy is None:
        return _integers(argument, dtype, how, rng)
    if how is Distribution.WIDE:
        exponents = rng.uniform(-policy.wide_bits, policy.wide_bits, shape)
        numbers = rng.standard_normal(shape, np.float32) * np.exp2(exponents)
        return np.asarray(numbers).astype(dtype)
    least = 0.0 if how is Distribution.UNIFORM and seed % 2 else -1.0
    numbers = rng.uniform(least, 1.0, shape).astype(np.float32)
    return _with_specials(numbers, how, rng).astype(dtype)


def _with_specials(numbers: Array, how: Distribution, rng: np.random.Generator) -> Array:
    if how is not Distribution.SPECIAL:
        return numbers
    chosen = rng.random(numbers.shape) < _SPECIAL_SHARE
    specials = np.asarray(_SPECIALS, np.float32)[rng.integers(0, len(_SPECIALS), numbers.shape)]
    return np.where(chosen, specials, numbers)


def _integers(
    argument: Argument, dtype: np.dtype[Any], how: Distribution, rng: np.random.Generator
) -> Array:
    is_signed = argument.dtype.startswith("int")
    if dtype.itemsize == 1 and how is not Distribution.WIDE:
        info = np.iinfo(dtype)
        ends = rng.choice(np.asarray([info.min, info.max]), argument.shape)
        plain = rng.integers(info.min, info.max + 1, argument.shape)
        return np.where(rng.random(argument.shape) < _ENDS_SHARE, ends, plain).astype(dtype)
    if dtype.itemsize == 1:
        low, high = -_PLAIN, _PLAIN
    else:
        reach = 1 << _WIDE_BITS if how is Distribution.WIDE else _PLAIN
        low, high = -reach, reach
    return rng.integers(low if is_signed else 0, high + 1, argument.shape).astype(dtype)


def poison(argument: Argument, dtype: np.dtype[Any]) -> Array:
    """Contents no right function leaves in its output, as one element: NaN, or 0xCC bytes."""
    if argument.dtype.startswith(("float", "bfloat")):
        return np.array(np.nan, dtype)
    if argument.dtype == "bool":
        return np.array(0, dtype)
    return np.full(dtype.itemsize, _POISON_BYTE, np.uint8).view(dtype).reshape(())
