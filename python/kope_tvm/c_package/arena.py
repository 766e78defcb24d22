# SPDX-License-Identifier: Apache-2.0
"""Where intermediate tensors lie: those that live at different times share memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kope_tvm.c_package.plan import ALIGNMENT_BYTES


@dataclass(frozen=True)
class Lifetime:
    """A tensor from the step that writes it to the last that reads it."""

    size: int
    """Bytes."""
    first: int
    last: int

    def meets(self, other: Lifetime) -> bool:
        """Whether both are alive at one step."""
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True)
class Arena:
    """Offsets in the order of the lifetimes, and the bytes of all."""

    offsets: tuple[int, ...]
    size: int


def planned(lifetimes: Sequence[Lifetime]) -> Arena:
    """The largest first, each at the lowest place that is free while it lives."""
    placed: dict[int, int] = {}
    for number in sorted(range(len(lifetimes)), key=lambda i: -lifetimes[i].size):
        neighbours = sorted(
            (offset, _rounded(lifetimes[i].size))
            for i, offset in placed.items()
            if lifetimes[i].meets(lifetimes[number])
        )
        placed[number] = _lowest(neighbours, _rounded(lifetimes[number].size))
    ends = (offset + _rounded(lifetimes[i].size) for i, offset in placed.items())
    return Arena(tuple(placed[i] for i in range(len(lifetimes))), max(ends, default=0))


def _lowest(taken: Sequence[tuple[int, int]], size: int) -> int:
    offset = 0
    for begin, length in taken:
        if offset + size <= begin:
            break
        offset = max(offset, begin + length)
    return offset


def _rounded(size: int) -> int:
    return -(-size // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
