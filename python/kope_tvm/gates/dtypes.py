# SPDX-License-Identifier: Apache-2.0
"""Refuses to compute, add up or keep values in less than the untuned function does.

Dtypes are ordered by what they hold: one is as wide as another where it has at least the other's
bits of significand and of exponent. bfloat16 and float16 are neither's equal.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Any

from kope_tvm import static_checks
from kope_tvm.candidate import Candidate
from kope_tvm.outcome import Verdict, accept, refuse
from kope_tvm.task import Task
from kope_tvm.untuned import of_intrinsics, of_untuned, scheduled_func

_FLOATS = {
    "float64": (53, 11),
    "float32": (24, 8),
    "float16": (11, 5),
    "bfloat16": (8, 8),
    "float8_e4m3fn": (4, 4),
    "float8_e5m2": (3, 5),
}
"""Bits of significand, the hidden one included, and of exponent."""
_INTEGER = re.compile(r"(u?)int(\d+)")
_PLACE_BITS = 32
"""Of an integer made of a float: an exponent or a place; less is a quantisation."""


class Dtypes:
    """An intrinsic that is tensorized with may do what its own implementation does."""

    cost = 3

    def check(self, candidate: Candidate, task: Task) -> Verdict:
        """Refuse with E_DTYPE, naming what is too narrow."""
        known = of_untuned(_described, task)
        found = static_checks.dtypes(scheduled_func(candidate)) - known
        narrow = {one for one in found if not _is_wide_enough(one, known)}
        if narrow:
            narrow -= of_intrinsics(static_checks.dtypes, candidate)
        if not narrow:
            return accept("dtypes")
        reason = f"{min(narrow)}, where {task.name} has {_shown(known)}; {len(narrow)} such"
        return refuse("dtypes", "E_DTYPE", reason, suspicious=True)


def _described(func: Any) -> frozenset[str]:
    """What the function does, and where it only moves values, what it moves."""
    found = static_checks.dtypes(func)
    if any(one.startswith("compute") for one in found):
        return found
    params = (str(getattr(param, "dtype", "handle")) for param in func.params)
    return found | {f"compute {dtype}" for dtype in params if dtype != "handle"}


def _is_wide_enough(given: str, known: Iterable[str]) -> bool:
    what, *dtypes = given.split()
    if what == "cast":
        return _is_harmless(dtypes[0], dtypes[1], known)
    return _holds(dtypes[0], _of(what, known) or _of("compute", known))


def _is_harmless(source: str, target: str, known: Iterable[str]) -> bool:
    """A cast that loses nothing, or nothing that the untuned function keeps."""
    if target == "bool" or _is_as_wide(target, source):
        return True
    if source in _FLOATS and target not in _FLOATS:
        return _bits(target) >= _PLACE_BITS
    return _bits(source) == _bits(target) > 0 or _holds(target, _of("compute", known))


def _holds(given: str, references: Iterable[str]) -> bool:
    """Whether it is as wide as one that it can stand for.

    Integers beside a computation in floats are masks and packed weights: what the floats then
    come to is checked on the device.
    """
    floats = [one for one in references if one in _FLOATS]
    if given in _FLOATS:
        return any(_is_as_wide(given, one) for one in floats or references)
    return bool(floats) or any(_is_as_wide(given, one) for one in references)


def _of(what: str, known: Iterable[str]) -> tuple[str, ...]:
    return tuple(one.split()[1] for one in known if one.startswith(f"{what} "))


@cache
def _is_as_wide(given: str, other: str) -> bool:
    return all(a >= b for a, b in zip(_widths(given), _widths(other), strict=True))


def _widths(dtype: str) -> tuple[int, int]:
    """Bits of significand and of exponent; an integer is a significand alone."""
    integer = _INTEGER.fullmatch(dtype)
    if integer:
        return int(integer[2]) - (not integer[1]), 0
    return _FLOATS.get(dtype, (1, 0))


def _bits(dtype: str) -> int:
    """Of an integer; 0 for others."""
    integer = _INTEGER.fullmatch(dtype)
    return int(integer[2]) if integer else 0


def _shown(known: Iterable[str]) -> str:
    return ", ".join(sorted(one for one in known if not one.startswith("cast"))) or "nothing"
