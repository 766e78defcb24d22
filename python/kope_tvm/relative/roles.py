# SPDX-License-Identifier: Apache-2.0
"""What the loops are that a trace's decisions size: seen by following its instructions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from kope_tvm.space import Knob, Space

VECTOR = "vlen"
"""A loop that is vectorised: in vectors of the machine."""
TASKS = "cores"
"""A loop that is parallel: in cores of the machine."""
REST = "rest"
"""What the other factors of a tile leave over."""
PLAIN = "as is"


@dataclass(frozen=True)
class Tiling:
    """A multi-level tiling of one block: its tiles, by the block's iterators."""

    block: str
    tiles: dict[int, int]
    """Instruction of a tile by position of the iterator."""


@dataclass(frozen=True)
class Roles:
    """The roles of the factors of each knob, by its instruction."""

    of_knob: dict[int, tuple[str, ...]]
    tilings: tuple[Tiling, ...]
    lanes: int = 0
    """Extent of the widest vectorised loop that no knob decides; 0 where there is none."""


def roles_of(space: Space) -> Roles:
    """The roles of a space's knobs, of which a categorical or a location has one."""
    trace = _Trace()
    for index, instruction in enumerate(space.instructions):
        trace.read(index, *instruction)
    of_knob = {knob.index: trace.roles(knob) for knob in space.knobs}
    return Roles(of_knob, tuple(trace.tilings()), trace.lanes)


@dataclass
class _Trace:
    """A trace as far as it was read."""

    _owner: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Instruction and position of each sampled number."""
    _made_of: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The numbers that a loop's extent is made of, outermost first; "" is a constant."""
    _block: dict[str, str] = field(default_factory=dict)
    """Name of each block."""
    _axis: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Block and position of each untouched loop."""
    _tile_of: dict[tuple[str, int], int] = field(default_factory=dict)
    _tiled: list[str] = field(default_factory=list)
    _role: dict[tuple[int, int], str] = field(default_factory=dict)
    _nests: list[list[str]] = field(default_factory=list)
    _constant: dict[str, int] = field(default_factory=dict)
    """Extents of loops that the trace itself says."""
    lanes: int = 0

    def read(self, index: int, kind: str, inputs: Any, attrs: Any, outputs: Any) -> None:
        """Take in one instruction."""
        reader = getattr(self, f"_read_{kind.lower()}", None)
        if kind.startswith("Sample"):
            self._owner.update({name: (index, place) for place, name in enumerate(outputs)})
        if reader is not None:
            reader(index, inputs, attrs, outputs)

    def roles(self, knob: Knob) -> tuple[str, ...]:
        """Of each factor of a tile, or of the one number of another knob."""
        count = len(knob.value) if isinstance(knob.value, tuple) else 1
        found = [self._role.get((knob.index, place), PLAIN) for place in range(count)]
        return (REST, *found[1:]) if isinstance(knob.value, tuple) else tuple(found)

    def tilings(self) -> Iterator[Tiling]:
        """The tilings of several levels."""
        for block in self._tiled:
            tiles = {axis: at for (name, axis), at in self._tile_of.items() if name == block}
            if tiles:
                yield Tiling(self._block[block], tiles)

    def _read_getsblock(self, _: int, __: Any, attrs: Any, outputs: Any) -> None:
        self._block[outputs[0]] = str(attrs[0])

    def _read_getloops(self, _: int, inputs: Any, __: Any, outputs: Any) -> None:
        if not any(block == inputs[0] for block, _ in self._axis.values()):
            self._axis.update({loop: (inputs[0], at) for at, loop in enumerate(outputs)})

    def _read_sampleperfecttile(self, index: int, inputs: Any, _: Any, __: Any) -> None:
        if inputs[0] in self._axis:
            self._tile_of[self._axis[inputs[0]]] = index

    def _read_split(self, _: int, inputs: Any, __: Any, outputs: Any) -> None:
        for number, loop in zip(inputs[1:], outputs, strict=False):
            self._made_of[loop] = (number if number in self._owner else "",)
            if isinstance(number, int):
                self._constant[loop] = number

    def _read_fuse(self, _: int, inputs: Any, __: Any, outputs: Any) -> None:
        self._made_of[outputs[0]] = tuple(
            part for loop in inputs for part in self._made_of.get(loop, ("",))
        )

    def _read_reorder(self, _: int, inputs: Any, __: Any, ___: Any) -> None:
        self._nests.append(inputs)

    def _read_vectorize(self, _: int, inputs: Any, __: Any, ___: Any) -> None:
        self._mark(self._made_of.get(inputs[0], ())[-1:], VECTOR)
        self.lanes = max(self.lanes, self._constant.get(inputs[0], 0))

    def _read_parallel(self, _: int, inputs: Any, __: Any, ___: Any) -> None:
        self._mark(self._made_of.get(inputs[0], ()), TASKS)

    def _read_annotate(self, _: int, inputs: Any, attrs: Any, __: Any) -> None:
        if attrs[0] == "meta_schedule.tiling_structure":
            self._tiled.append(inputs[0])
        elif attrs[0] == "meta_schedule.vectorize":
            # A postprocessor will vectorise what is innermost.
            for nest in self._nests:
                self._mark(self._made_of.get(nest[-1], ())[-1:], VECTOR)

    def _mark(self, numbers: Sequence[str], role: str) -> None:
        for number in numbers:
            if number in self._owner:
                self._role[self._owner[number]] = role


def wiring(space: Space) -> str:
    """What is done to what, numbers aside: equal where one loop structure is used twice."""
    return json.dumps(
        [
            (kind, [one for one in inputs if _is_name(one)], outputs)
            for kind, inputs, _, outputs in space.instructions
        ]
    )


def _is_name(given: Any) -> bool:
    return isinstance(given, str) and given[:1] in ("b", "l", "v") and given[1:].isdigit()
