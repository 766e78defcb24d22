# SPDX-License-Identifier: Apache-2.0
"""Where a block of an imported function comes from."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod


def dims_of(affine_map: str) -> frozenset[int]:
    """The dimensions in the results of a map, as MLIR spells it."""
    return frozenset(map(int, re.findall(r"\bd(\d+)", affine_map.partition("->")[2])))


@dataclass(frozen=True)
class Source:
    """The operation that a block is."""

    op: str
    """`linalg.matmul`."""
    which: int
    """Which of that name in its function, from 0."""
    dims: tuple[int, ...]
    """The operation's dimension that each iterator of the block is."""
    extents: tuple[int, ...]
    """Of the operation's dimensions."""
    reduced: tuple[int, ...] = ()
    """The dimensions that it reduces."""
    reads: tuple[frozenset[int], ...] = ()
    """The dimensions that index each of its inputs; empty where it has no indexing maps."""

    @property
    def spatial(self) -> tuple[int, ...]:
        return tuple(dim for dim in range(len(self.extents)) if dim not in self.reduced)

    def spatial_size(self, sizes: tuple[int, ...]) -> int:
        """Elements of the output in a tile."""
        return prod(sizes[dim] for dim in self.spatial)

    def reduced_size(self, sizes: tuple[int, ...]) -> int:
        """How much of the reductions a tile covers."""
        return prod(sizes[dim] for dim in self.reduced)
