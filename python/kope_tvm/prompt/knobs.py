# SPDX-License-Identifier: Apache-2.0
"""What each knob of a design space does, read off its trace."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from kope_tvm.space import TUNING, VECTORS, Knob, Space

_MARKS = {"Unroll": "unrolled", "Vectorize": "vectorized", "Parallel": "parallel"}
_MADE_BY = {
    "CacheRead": "read cache of", "CacheWrite": "write cache of", "RFactor": "partial",
    "DecomposeReduction": "init of", "GetConsumers": "consumer of", "GetProducers": "producer of",
}  # fmt: skip
_ANNOTATED = {
    TUNING: "0 tuned to the core, 1 generic",
    VECTORS: "1 scalable vectors",
}
_PART = "inner"
_MAX_OPTIONS = 12


@dataclass(frozen=True)
class KnobLine:
    """One knob as a model sees it."""

    knob: Knob
    role: str
    """e.g. `unrolled matmul.i0`, the part of that loop which is unrolled; empty where unknown."""

    @property
    def name(self) -> str:
        return f"d{self.knob.index}"

    @property
    def legal(self) -> str:
        """The legal values in few words."""
        if isinstance(self.knob.value, tuple):
            extent, most = prod(self.knob.value), self.knob.max_innermost
            return f"product {extent}" + (f", last <= {most}" if 0 < most < extent else "")
        if self.knob.kind == "SampleComputeLocation":
            return "(-2 inline, -1 own nest, n under loop n)"
        options = [plain_number(option) for option in self.knob.options]
        return f"of {','.join(options[:_MAX_OPTIONS])}"

    @property
    def is_fixed(self) -> bool:
        """Whether there is no other value."""
        if isinstance(self.knob.value, tuple):
            return prod(self.knob.value) == 1
        return self.knob.kind == "SampleCategorical" and len(self.knob.options) < 2


def plain_number(value: float) -> str:
    """Without a point where it is whole."""
    return str(int(value)) if float(value).is_integer() else str(value)


def shown_value(knob: Knob) -> str:
    """The value as a reply spells it."""
    if isinstance(knob.value, tuple):
        return json.dumps(list(knob.value), separators=(",", ":"))
    return plain_number(float(knob.shown))


def knob_lines(
    space: Space, loops: Mapping[str, Sequence[str]] | None = None
) -> tuple[KnobLine, ...]:
    """The knobs that can be turned; `loops` names the untuned loops around each block."""
    roles = _Roles(json.loads(space.trace)[0], loops or {})
    lines = (KnobLine(knob, roles.role(knob.index)) for knob in space.knobs)
    return tuple(line for line in lines if not line.is_fixed)


class _Roles:
    """Follows blocks and loops through a trace by name."""

    def __init__(self, instructions: list[Any], loops: Mapping[str, Sequence[str]]) -> None:
        self._instructions = instructions
        self._untuned = dict(loops)
        self._names: dict[str, str] = {}
        self._marks: dict[str, str] = {}
        self._uses: dict[str, list[str]] = {}
        for kind, inputs, attrs, outputs in instructions:
            self._follow(kind, inputs, attrs, outputs)
        for kind, inputs, attrs, outputs in instructions:
            self._note_uses(kind, inputs, attrs, outputs)

    def role(self, index: int) -> str:
        """What the outputs of a sampling instruction are used for, and how many uses more."""
        kind, inputs, _, outputs = self._instructions[index]
        if kind == "SampleComputeLocation":
            return f"where {self._names.get(str(inputs[0]), 'a block')} is computed"
        if kind == "SamplePerfectTile":
            return f"tile {self._names.get(str(inputs[0]), 'a loop')}"
        uses = list(dict.fromkeys(self._uses.get(str(outputs[0]), ())))
        # What is known by name tells more than parts of what the schedule made.
        uses.sort(key=lambda use: (use.split(" ")[0] == _PART, " of " in use))
        return "".join(uses[:1]) + (f" (+{len(uses) - 1})" if len(uses) > 1 else "")

    def _follow(self, kind: str, inputs: list[Any], attrs: list[Any], outputs: list[str]) -> None:
        if kind == "GetSBlock":
            self._names[outputs[0]] = attrs[0]
        elif kind == "GetLoops":
            self._names.update(zip(outputs, self._loop_names(inputs[0], len(outputs)), strict=True))
        elif kind == "Split":
            name = self._names.get(inputs[0], "loop")
            self._names.update((out, name) for out in outputs)
        elif kind == "Fuse":
            names = [self._names.get(one, "loop") for one in inputs]
            self._names[outputs[0]] = "*".join(dict.fromkeys(names))
        elif kind in _MADE_BY and outputs:
            made = f"{_MADE_BY[kind]} {self._names.get(str(inputs[0]), 'a block')}"
            self._names.update((out, made) for out in outputs)
        if kind in _MARKS:
            self._marks[inputs[0]] = _MARKS[kind]

    def _loop_names(self, block: str, count: int) -> Iterator[str]:
        name = self._names.get(block, "a block")
        untuned = self._untuned.pop(name, ())  # Once tiled, they are not these any more.
        for number in range(count):
            yield f"{name}.{untuned[number] if len(untuned) == count else number}"

    def _note_uses(
        self, kind: str, inputs: list[Any], attrs: list[Any], outputs: list[str]
    ) -> None:
        for position, one in enumerate(inputs):
            if not isinstance(one, str) or not re.fullmatch(r"v\d+", one):
                continue
            if kind == "Split" and position <= len(outputs):
                made = self._marks.get(outputs[position - 1], _PART)
                place = self._names.get(inputs[0], "a loop")
                self._uses.setdefault(one, []).append(f"{made} {place}")
            elif kind == "Annotate":
                key = str(attrs[0])
                words = _ANNOTATED.get(key, key.replace("meta_schedule.", ""))
                self._uses.setdefault(one, []).append(words)
