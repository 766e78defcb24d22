# SPDX-License-Identifier: Apache-2.0
"""Decisions of one space made anew, in the nearest legal values, in another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING

from kope_tvm.relative.footprint import TiledBlock
from kope_tvm.relative.roles import VECTOR, Roles, roles_of
from kope_tvm.relative.wording import Amount, Relative, amount, numbers, worded
from kope_tvm.relative.yardstick import Yardstick
from kope_tvm.space import Knob, Space, Value, fitted_tile, log_gap

if TYPE_CHECKING:
    from kope_tvm.schedules.analysis import Block


@dataclass(frozen=True)
class Place:
    """Where decisions are made: the machine as its task sees it, and the task's blocks."""

    machine: Yardstick
    blocks: Mapping[str, Block] = field(default_factory=dict)
    """By name; what is missing has no footprint."""


@dataclass(frozen=True)
class Carried:
    """A setting of another space, and what was carried over."""

    space: Space
    relative: Relative


def relative_of(source: Space, place: Place) -> Relative:
    """A space's decisions relative to the machine that they were made on."""
    return _relative(source, roles_of(source), place)


def carried(source: Space, made_on: Yardstick, into: Space, place: Place) -> Carried | None:
    """`into` with the decisions of `source`, made on another machine or shape.

    None where the knobs of the two do not correspond.
    """
    ours, theirs = source.bare, into.bare
    if [_shape(knob) for knob in ours.knobs] != [_shape(knob) for knob in theirs.knobs]:
        return None
    roles = roles_of(ours)
    relative = _relative(ours, roles, Place(made_on, place.blocks))
    values = {
        knob.index: _nearest(numbers(amounts, place.machine), knob)
        for amounts, knob in zip(relative.knobs, theirs.knobs, strict=True)
    }
    if made_on != place.machine:
        values |= _filled(values, roles_of(theirs), relative.fills, place)
    forms = {knob.index: _form(source, key) for key, knob in into.forms.items()}
    return Carried(into.turned(values | forms), relative)


def _form(source: Space, key: str) -> Value:
    """What the source says of its code, if anything."""
    return source.forms[key].value if key in source.forms else 0


def vectors_of(space: Space, machine: Yardstick) -> float:
    """The widest vectorised loop that no knob decides, in vectors of a machine; 0 for none."""
    return roles_of(space).lanes / (machine.lanes or 1)


def _shape(knob: Knob) -> tuple[str, int]:
    return knob.kind, len(knob.value) if isinstance(knob.value, tuple) else 1


def _relative(source: Space, roles: Roles, place: Place) -> Relative:
    knobs = tuple(worded(knob, roles.of_knob[knob.index], place.machine) for knob in source.knobs)
    tiles = {one.index: one.value for one in source.knobs if isinstance(one.value, tuple)}
    fills = [] if not roles.lanes else [amount(roles.lanes, VECTOR, place.machine)]
    for block in _tiled(roles, place):
        fills += block.fills(tiles, place.machine)
    return Relative(knobs, tuple(fills))


def _tiled(roles: Roles, place: Place) -> list[TiledBlock]:
    """The one block that a trace tiles in several levels; of several none, as they share caches."""
    found = [TiledBlock.of(place.blocks.get(each.block), each) for each in roles.tilings]
    return [found[0]] if len(found) == 1 and found[0] is not None else []


def _filled(
    values: Mapping[int, Value], roles: Roles, fills: tuple[Amount, ...], place: Place
) -> dict[int, Value]:
    tiles = {index: value for index, value in values.items() if isinstance(value, tuple)}
    for block in _tiled(roles, place):
        tiles = dict(block.filled(tiles, dict(fills), place.machine))
    return {**tiles}


def _nearest(wanted: tuple[float, ...], legal: Knob) -> Value:
    if isinstance(legal.value, tuple):
        tile = tuple(max(1, round(number)) for number in wanted)
        return fitted_tile(tile, prod(legal.value), legal.max_innermost)
    if legal.kind == "SampleCategorical":
        gaps = [log_gap(option, wanted[0]) for option in legal.options]
        return gaps.index(min(gaps))
    return round(wanted[0])
