# SPDX-License-Identifier: Apache-2.0
"""Where a script has got to with an operation."""

from __future__ import annotations

from dataclasses import dataclass

from kope_tvm.mlir.script_text import Handle
from kope_tvm.mlir.tuned_op import Sizes


@dataclass(frozen=True)
class Copy:
    """One operand packed: which one, and the loops around the copy and its reader's tile there."""

    operand: int
    loops: int
    sizes: Sizes


@dataclass(frozen=True)
class Place:
    """An operation's tile: the operation, the loop around it, and the tile's size."""

    handle: Handle
    region: Handle
    sizes: Sizes
    is_even: bool = True
    """Whether all tiles are of that size."""
    fills_done: bool = False
    is_padded: bool = False
    loops: int = 0
    """Of `scf.for`, around it and within the innermost `scf.forall`."""
    copies: tuple[tuple[str, Copy], ...] = ()
    """By block, what packs an operand for it."""


def smaller(sizes: Sizes, others: Sizes) -> Sizes:
    """Of each dimension the smaller size."""
    return tuple(min(pair) for pair in zip(sizes, others, strict=True))
