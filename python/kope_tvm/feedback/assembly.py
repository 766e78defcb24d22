# SPDX-License-Identifier: Apache-2.0
"""Finds the hottest loop of an assembly listing; an ISA's own file reads the instructions.

Loops are back edges: a jump to a label above it in the same function. LLVM lays a loop out in one
piece, so that its body is the text between the two.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from kope_tvm.feedback.hot_loop import HotLoop

_LABEL = re.compile(r"([A-Za-z_.$][\w.$@]*):")
_TRIPS = 4.0
"""What one more loop around counts for: loops that matter run longer, ones that unroll do not."""
_CALL_WEIGHT = 20.0


class Kind(Enum):
    """What an instruction is for."""

    FMA = auto()
    ARITHMETIC = auto()
    MOVE = auto()
    SHUFFLE = auto()
    CONVERT = auto()
    GATHER = auto()
    SCALAR = auto()
    BRANCH = auto()
    CALL = auto()


_WEIGHTS = {Kind.FMA: 2.0, Kind.ARITHMETIC: 1.0, Kind.SCALAR: 0.1, Kind.BRANCH: 0.1}


@dataclass(frozen=True)
class Instruction:
    """One instruction as far as the search for loops and the report need it."""

    kind: Kind
    bits: int = 0
    """Of the widest vector it works on; 32 or 64 for a scalar in floating point."""
    registers: str = ""
    """The name of such vectors, as a person of that ISA says it."""
    loads: int = 0
    stores: int = 0
    stack: int = 0
    """How many of its loads and stores are of the stack."""
    to: str = ""
    """Label it may jump to, or function it calls."""

    @property
    def weight(self) -> float:
        return _WEIGHTS.get(self.kind, 0.5) * max(1.0, self.bits / 32)


Read = Callable[[Sequence[tuple[str, str]]], Iterator[Instruction]]
"""Reads the (mnemonic, operands) of one function."""


@dataclass
class _Function:
    name: str
    code: list[tuple[str, str]] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    """Index of the instruction that follows each."""


@dataclass
class _Loop:
    start: int
    end: int
    """Of the last instruction, inclusive."""
    depth: int
    inside: list[tuple[int, int]] = field(default_factory=list)

    def own(self, code: Sequence[Instruction]) -> list[Instruction]:
        """Instructions of the body that belong to no loop inside it."""
        found: list[Instruction] = []
        position = self.start
        for start, end in sorted(self.inside):
            found += code[position:start]
            position = max(position, end + 1)
        return [*found, *code[position : self.end + 1]]


def hottest(listing: str, read: Read) -> HotLoop | None:
    """The loop with the most arithmetic, nesting counted in; None where there is no code."""
    best: tuple[float, HotLoop] | None = None
    for function in _functions(listing):
        code = list(read(function.code))
        for loop in _loops(code, function.labels):
            body = loop.own(code)
            score = _score(body, loop.depth)
            if best is None or score > best[0]:
                best = score, _counted(function.name, loop.depth, body)
    return best[1] if best else None


def _functions(listing: str) -> Iterator[_Function]:
    function: _Function | None = None
    for line in listing.splitlines():
        text = line.split("#", 1)[0].strip()
        if not text or (text[0] == "." and ":" not in text):
            continue
        label = _LABEL.match(text)
        if label is None:
            if function:
                mnemonic, _, operands = text.replace("\t", " ").partition(" ")
                function.code.append((mnemonic, operands.strip()))
        elif not label[1].startswith(".L"):
            if function and function.code:
                yield function
            function = _Function(label[1])
        elif function:
            function.labels[label[1]] = len(function.code)
    if function and function.code:
        yield function


def _loops(code: Sequence[Instruction], labels: dict[str, int]) -> list[_Loop]:
    """Every loop of a function, and the function itself as one that runs once."""
    ends: dict[int, int] = {}
    for index, instruction in enumerate(code):
        start = labels.get(instruction.to, len(code))
        if instruction.kind is Kind.BRANCH and start <= index:
            ends[start] = index
    around = [_Loop(0, len(code) - 1, 0)]
    found = list(around)
    for start, end in sorted(ends.items(), key=lambda span: (span[0], -span[1])):
        while around[-1].end < start:
            around.pop()
        around[-1].inside.append((start, end))
        around.append(_Loop(start, max(end, start), len(around)))
        found.append(around[-1])
    return found


def _score(body: Sequence[Instruction], depth: int) -> float:
    calls = sum(one.kind is Kind.CALL for one in body) if depth else 0
    weight = sum(one.weight for one in body) + calls * _CALL_WEIGHT
    return float(weight * _TRIPS**depth)


def _counted(function: str, depth: int, body: Sequence[Instruction]) -> HotLoop:
    kinds = Counter(one.kind for one in body)
    busy = [one for one in body if one.kind in (Kind.FMA, Kind.ARITHMETIC)]
    widest = max(busy, key=lambda one: one.bits, default=None)
    return HotLoop(
        function=function,
        depth=depth,
        instructions=len(body),
        fma=kinds[Kind.FMA],
        arithmetic=kinds[Kind.ARITHMETIC],
        loads=sum(one.loads for one in body),
        stores=sum(one.stores for one in body),
        shuffles=kinds[Kind.SHUFFLE],
        converts=kinds[Kind.CONVERT],
        gathers=kinds[Kind.GATHER],
        scalar=kinds[Kind.SCALAR],
        branches=kinds[Kind.BRANCH],
        spills=sum(one.stack for one in body),
        registers=widest.registers if widest else "",
        calls=tuple(dict.fromkeys(one.to for one in body if one.kind is Kind.CALL)),
    )
