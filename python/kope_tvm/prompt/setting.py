# SPDX-License-Identifier: Apache-2.0
"""Reads values for the knobs of a space out of untrusted JSON."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from kope_tvm.prompt.knobs import plain_number
from kope_tvm.space import Knob, Space, Value, divisors

_MAX_LOCATION = 63
_MAX_KNOBS = 64
_SHOWN_DIVISORS = 16


class SettingError(ValueError):
    """What is wrong with a value, and what would be right."""


def turned(space: Space, given: Any) -> Space:
    """The space with the values of `[{"knob", "value"}, ...]`; raises SettingError."""
    knobs = {knob.index: knob for knob in space.knobs}
    values: dict[int, Value] = {}
    for name, value in _pairs(given):
        index = _index(name)
        if index not in knobs:
            legal = ", ".join(f"d{one}" for one in knobs)
            raise SettingError(f"no knob {str(name)[:20]!r}; its knobs: {legal[:160] or 'none'}")
        values[index] = _value(knobs[index], value)
    return space.turned(values)


def _pairs(given: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(given, dict):
        given = [{"knob": name, "value": value} for name, value in given.items()]
    if not isinstance(given, list):
        raise SettingError("values: expected a list of knobs and values")
    if len(given) > _MAX_KNOBS:
        raise SettingError(f"values: {len(given)} of them, at most {_MAX_KNOBS}")
    for one in given:
        if not isinstance(one, dict) or "knob" not in one or "value" not in one:
            raise SettingError('values: expected {"knob": "d3", "value": ...}')
        yield one["knob"], one["value"]


def _index(name: Any) -> int:
    found = re.fullmatch(r"[dD#]?(\d{1,6})", str(name).strip()[:20])
    return int(found[1]) if found else -1


def _value(knob: Knob, given: Any) -> Value:
    if isinstance(knob.value, tuple):
        return _tile(knob, knob.value, given)
    number = _number(given)
    if knob.kind == "SampleCategorical":
        if number is None or number not in knob.options:
            legal = ", ".join(plain_number(option) for option in knob.options)
            raise SettingError(f"d{knob.index} {_shown(given)} is none of {legal}")
        return knob.options.index(number)
    if number is None or number != int(number) or not -2 <= number <= _MAX_LOCATION:
        raise SettingError(
            f"d{knob.index} {_shown(given)}: expected -2, -1 or the number of a loop"
        )
    return int(number)


def _tile(knob: Knob, now: tuple[int, ...], given: Any) -> Value:
    factors = [_number(one) for one in given] if isinstance(given, list) else []
    tile = tuple(int(one) for one in factors if one is not None and one == int(one) and one >= 1)
    extent, name = math.prod(now), f"d{knob.index} {_shown(given)}"
    if len(tile) != len(now) or len(factors) != len(now):
        raise SettingError(f"{name}: expected {len(now)} positive factors of {extent}")
    if math.prod(tile) != extent:
        raise SettingError(
            f"{name} multiplies to {math.prod(tile)}, the loop extent is {extent}; "
            f"divisors {_divisors(extent)}"
        )
    if knob.max_innermost and tile[-1] > knob.max_innermost:
        raise SettingError(f"{name}: the last factor is at most {knob.max_innermost}")
    return tile


def _number(given: Any) -> float | None:
    """A finite number of sane size, or one in quotes; a list of one is its element."""
    if isinstance(given, list) and len(given) == 1:
        given = given[0]
    if isinstance(given, str):
        if not re.fullmatch(r"\s*-?\d{1,9}(\.\d{1,9})?\s*", given):
            return None
        given = float(given)
    if isinstance(given, bool) or not isinstance(given, int | float):
        return None
    return given if abs(given) < 1 << 31 else None


def _divisors(extent: int) -> str:
    found = divisors(extent)
    more = "..." if len(found) > _SHOWN_DIVISORS else ""
    return ",".join(map(str, found[:_SHOWN_DIVISORS])) + more


def _shown(given: Any) -> str:
    text = str(given).replace(" ", "")
    return text if len(text) <= 40 else f"{text[:40]}..."
