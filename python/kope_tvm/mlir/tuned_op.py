# SPDX-License-Identifier: Apache-2.0
"""An operation where a schedule computes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from kope_tvm.mlir.nest import Loop, Stage, spread
from kope_tvm.mlir.source import Source

Sizes = tuple[int, ...]


@dataclass(frozen=True)
class TunedOp:
    """An operation where it is computed."""

    name: str
    source: Source
    stage: Stage
    partials: int
    """Partial results that a reduction keeps (rfactor); 0 where it keeps one."""
    kept: frozenset[str] = frozenset()
    """With partial results, the iterators that the operation had before."""

    def sizes(self, loops: Sequence[Loop]) -> Sizes:
        """The tile that these loops, its innermost ones, cover: one size a dimension."""
        dims = self.source.extents
        if self.partials:
            kept = [each for each in self.stage.iters if each.name in self.kept]
            named = dict(zip(self.source.dims, spread(kept, loops), strict=False))
            return tuple(min(named.get(dim, dims[dim]), dims[dim]) for dim in range(len(dims)))
        found = dict(zip(self.source.dims, spread(self.stage.iters, loops), strict=True))
        return tuple(min(found[dim], dims[dim]) for dim in range(len(dims)))


def partials_of(stage: Stage, kept: frozenset[str]) -> int:
    """The extent of the iterator that rfactor made: the only new spatial one."""
    extents = [it.extent for it in stage.iters if it.is_spatial and it.name not in kept]
    return prod(extents) if extents else 0
