# SPDX-License-Identifier: Apache-2.0
"""A design space as plain data: a trace, and the knobs (sampling instructions) in it.

Works on the JSON of `tvm.s_tir.Trace.as_json`, which is `[instructions, decisions]`; an instruction
is `[kind, inputs, attrs, outputs]` and a decision `[index of its instruction, value]`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

Value = int | tuple[int, ...]

_POSTPROC = "EnterPostproc"
TUNING = "kope.tuning"
VECTORS = "kope.vectors"
FORMS = frozenset({TUNING, VECTORS})
"""Annotations that say what differs from the target string; see `code_form`."""


@dataclass(frozen=True)
class Knob:
    """One sampling instruction and the value it has now."""

    index: int
    """Of the instruction in the trace."""
    kind: str
    """`SampleCategorical`, `SamplePerfectTile`, `SampleComputeLocation`, ..."""
    value: Value
    """A tile's factors; for a categorical the index of the candidate; for a location the loop
    index.
    """
    options: tuple[int | float, ...] = ()
    """The candidates of a categorical."""
    max_innermost: int = 0

    @property
    def shown(self) -> str:
        """The value as a person reads it."""
        if self.kind == "SampleCategorical" and isinstance(self.value, int):
            return str(self.options[self.value])
        return str(list(self.value)) if isinstance(self.value, tuple) else str(self.value)


@dataclass(frozen=True)
class Space:
    """A trace whose knobs may be turned."""

    name: str
    trace: str

    @cached_property
    def _parsed(self) -> tuple[list[Any], dict[int, Any]]:
        instructions, decisions = json.loads(self.trace)
        return instructions, dict(decisions)

    @cached_property
    def knobs(self) -> tuple[Knob, ...]:
        """Every decision before the postprocessing, in trace order."""
        instructions, decisions = self._parsed
        stop = self._num_sampled
        return tuple(
            _knob(index, instructions[index], decisions[index])
            for index in sorted(decisions)
            if index < stop
        )

    @cached_property
    def forms(self) -> Mapping[str, Knob]:
        """By their annotation, the knobs that decide what the target string says."""
        owners = {out: index for index, one in enumerate(self.instructions) for out in one[3]}
        knobs = {knob.index: knob for knob in self.knobs}
        return {
            attrs[0]: knobs[owners[inputs[1]]]
            for kind, inputs, attrs, _ in self.instructions
            if kind == "Annotate" and attrs[0] in FORMS and inputs[1] in owners
        }

    @cached_property
    def bare(self) -> Space:
        """Without those knobs: they come last, and not every machine has them."""
        if not self.forms:
            return self
        stop = min(knob.index for knob in self.forms.values())
        kept = {index: value for index, value in self._parsed[1].items() if index < stop}
        return Space(self.name, json.dumps([self.instructions[:stop], sorted(kept.items())]))

    @property
    def instructions(self) -> list[Any]:
        """`[kind, inputs, attrs, outputs]` of each before the postprocessing."""
        return self._parsed[0][: self._num_sampled]

    @cached_property
    def structure(self) -> str:
        """What stays when the knobs are turned."""
        return json.dumps([(one[0], one[2]) for one in self.instructions])

    @property
    def skeleton(self) -> tuple[str, ...]:
        """The kinds of the instructions alone: equal across shapes of one operator."""
        return tuple(one[0] for one in self.instructions)

    @property
    def _num_sampled(self) -> int:
        kinds = [one[0] for one in self._parsed[0]]
        return kinds.index(_POSTPROC) if _POSTPROC in kinds else len(kinds)

    def turned(self, values: Mapping[int, Value]) -> Space:
        """The same space with these decisions, by instruction index; postprocessing is cut."""
        instructions, decisions = self._parsed
        stop = self._num_sampled
        kept = {index: value for index, value in decisions.items() if index < stop}
        kept.update({i: list(v) if isinstance(v, tuple) else v for i, v in values.items()})
        return Space(self.name, json.dumps([instructions[:stop], sorted(kept.items())]))


def _knob(index: int, instruction: list[Any], decision: Any) -> Knob:
    kind, _, attrs, _ = instruction
    value = tuple(decision) if isinstance(decision, list) else decision
    options = tuple(attrs[0]) if kind == "SampleCategorical" else ()
    max_innermost = attrs[1] if kind == "SamplePerfectTile" else 0
    return Knob(index, kind, value, options, max_innermost)


def difference(before: Space, after: Space) -> str:
    """What changed from one setting of a space to another, as a person reads it."""
    old = {knob.index: knob for knob in before.knobs}
    changes = [
        f"#{knob.index} {old[knob.index].shown} -> {knob.shown}"
        for knob in after.knobs
        if knob.index in old and old[knob.index].shown != knob.shown
    ]
    return ", ".join(changes) or "same values"


def neighbours(knob: Knob) -> tuple[Value, ...]:
    """Values one step away: the next categorical, or one prime factor moved within a tile."""
    if isinstance(knob.value, tuple):
        return _moved_factors(knob.value, knob.max_innermost)
    if knob.kind == "SampleCategorical":
        near = (knob.value - 1, knob.value + 1, knob.value - 2, knob.value + 2)
        return tuple(value for value in near if 0 <= value < len(knob.options))
    return (knob.value - 1, knob.value + 1) if knob.value > 0 else (knob.value + 1,)


def _moved_factors(tile: tuple[int, ...], max_innermost: int) -> tuple[Value, ...]:
    moved: list[Value] = []
    for source, factor in enumerate(tile):
        for prime in primes(factor):
            for sink in range(len(tile)):
                if sink == source:
                    continue
                trial = list(tile)
                trial[source] //= prime
                trial[sink] *= prime
                if trial[-1] <= (max_innermost or trial[-1]):
                    moved.append(tuple(trial))
    return tuple(dict.fromkeys(moved))


def primes(number: int) -> tuple[int, ...]:
    """Prime divisors; of a large number the small ones."""
    return (
        tuple(
            p for p in range(2, number + 1) if number % p == 0 and all(p % q for q in range(2, p))
        )
        if number <= 64
        else tuple(p for p in (2, 3, 5, 7) if number % p == 0)
    )


def log_gap(option: float, target: float) -> float:
    """How far apart two numbers are, in ratio where both are positive."""
    if option > 0 and target > 0:
        return abs(math.log(option / target))
    return abs(option - target)


def fitted_tile(
    wanted: tuple[int, ...], extent: int, max_innermost: int = 0, *, rest_at: int = 0
) -> tuple[int, ...]:
    """Innermost factor first, the divisor nearest in ratio; the one at `rest_at` gets the rest."""
    rest, fitted = extent, dict.fromkeys(range(len(wanted)), 1)
    for place in (place for place in reversed(range(len(wanted))) if place != rest_at):
        is_innermost = place == len(wanted) - 1
        limit = max_innermost if is_innermost and max_innermost else rest
        legal = [divisor for divisor in divisors(rest) if divisor <= limit]
        fitted[place] = min(legal, key=lambda divisor: log_gap(divisor, wanted[place]))
        rest //= fitted[place]
    fitted[rest_at] = rest
    return tuple(fitted.values())


def divisors(number: int) -> list[int]:
    """Of a positive number, smallest first."""
    small = [d for d in range(1, math.isqrt(number) + 1) if number % d == 0]
    return sorted({*small, *(number // d for d in small)})
