# SPDX-License-Identifier: Apache-2.0
"""Single decisions of a setting taken back, to learn what each was worth."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from kope_tvm.space import Knob, Space, Value


def undone(space: Space, guess: Space | None = None) -> Iterator[Space]:
    """The space with one decision at a time as if it had not been made.

    That is as in `guess`, the setting that the search began with, or where that says the same or
    nothing, untuned.
    """
    before: dict[int, Value] = {}
    if guess is not None and guess.structure == space.structure:
        before = {knob.index: knob.value for knob in guess.knobs}
    for knob in space.knobs:
        value = before.get(knob.index, knob.value)
        value = untuned(knob) if value == knob.value else value
        if value != knob.value:
            yield space.turned({knob.index: value})


def untuned(knob: Knob) -> Value:
    """A tile of one loop, the least of a categorical, a block that stays where it was."""
    if isinstance(knob.value, tuple):
        return (prod(knob.value), *(1 for _ in knob.value[1:]))
    if knob.kind == "SampleCategorical":
        return knob.options.index(min(knob.options))
    return -1
