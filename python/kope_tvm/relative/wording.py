# SPDX-License-Identifier: Apache-2.0
"""Decisions in units that any machine has: `2 vlen`, `3 cores`, a share of a cache."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from kope_tvm.relative.roles import PLAIN, REST, TASKS, VECTOR
from kope_tvm.relative.yardstick import Yardstick
from kope_tvm.space import Knob

_DIGITS = 3

Amount = tuple[str, float]
"""A unit (a role) and how many of it."""


@dataclass(frozen=True)
class Relative:
    """Decisions relative to the hardware."""

    knobs: tuple[tuple[Amount, ...], ...]
    """In trace order; of a tile its factors."""
    fills: tuple[Amount, ...] = ()
    """How many registers (`vlen`) the vectors fill that no knob decides, how much of `l1` and `l2`
    the tiles fill, and how many tasks there are for each of the `cores`.
    """

    def text(self) -> str:
        """As JSON; equal texts say the same."""
        return json.dumps({"knobs": self.knobs, "fills": self.fills}, separators=(",", ":"))

    def told(self) -> str:
        """As a person reads it, e.g. `[rest, 4, 2 vlen], 16; 0.5 l1`."""
        knobs = [
            f"[{', '.join(map(_told, one))}]" if len(one) > 1 else _told(one[0])
            for one in self.knobs
        ]
        fills = [_told(one) for one in self.fills]
        return "; ".join(", ".join(part) for part in (knobs, fills) if part)


def told(text: str) -> str:
    """What `Relative.text` wrote as a person reads it; the text itself where it is none of it."""
    try:
        given = json.loads(text)
        knobs = tuple(tuple((str(u), float(n)) for u, n in one) for one in given["knobs"])
        fills = tuple((str(u), float(n)) for u, n in given["fills"])
    except (ValueError, KeyError, TypeError):
        return text
    return Relative(knobs, fills).told()


def worded(knob: Knob, roles: Sequence[str], machine: Yardstick) -> tuple[Amount, ...]:
    """One decision in units of the machine it was made on."""
    return tuple(
        amount(number, role, machine) for number, role in zip(_numbers(knob), roles, strict=True)
    )


def numbers(amounts: Sequence[Amount], machine: Yardstick) -> tuple[float, ...]:
    """The same in numbers of another machine; 1 for what is to get the rest."""
    return tuple(
        1.0 if unit == REST else size * (_unit(unit, machine) or 1) for unit, size in amounts
    )


def rounded(number: float) -> float:
    """To so many digits as make two runs say the same."""
    return float(f"{number:.{_DIGITS}g}")


def _numbers(knob: Knob) -> tuple[float, ...]:
    if isinstance(knob.value, tuple):
        return knob.value
    is_categorical = knob.kind == "SampleCategorical"
    return (knob.options[knob.value] if is_categorical else knob.value,)


def amount(number: float, role: str, machine: Yardstick) -> Amount:
    """One number in the unit of its role, or as it is where the machine has none."""
    if role == REST:
        return (REST, 0.0)
    size = _unit(role, machine)
    return (role, rounded(number / size)) if size else (PLAIN, float(number))


def _unit(role: str, machine: Yardstick) -> int:
    """0 where the machine does not say, or the role has none."""
    return {VECTOR: machine.lanes, TASKS: machine.cores}.get(role, 0)


def _told(amount: Amount) -> str:
    unit, size = amount
    if unit == REST:
        return REST
    return f"{size:g}" if unit == PLAIN else f"{size:g} {unit}"
