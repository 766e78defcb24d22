# SPDX-License-Identifier: Apache-2.0
"""What the tiles of a block fill: the caches with the data they touch, the cores with tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import log, prod
from typing import TYPE_CHECKING

from kope_tvm.relative.roles import TASKS, Tiling
from kope_tvm.relative.wording import Amount, rounded
from kope_tvm.relative.yardstick import Yardstick, bits_of
from kope_tvm.space import log_gap, primes

if TYPE_CHECKING:
    from kope_tvm.schedules.analysis import Access, Block

L1, L2 = "l1", "l2"
_LEAVE = log(2.0)
"""A log ratio up to which a fill is as good as the wanted one."""

Tiles = Mapping[int, tuple[int, ...]]
"""Factors by instruction."""


@dataclass(frozen=True)
class TiledBlock:
    """A block whose iterators are all tiled, and what it touches."""

    block: Block
    tiling: Tiling

    @classmethod
    def of(cls, block: Block | None, tiling: Tiling) -> TiledBlock | None:
        """None where the block is not known, or a tile of it is not."""
        is_whole = block is not None and set(tiling.tiles) == set(range(len(block.iters)))
        return cls(block, tiling) if block is not None and is_whole else None

    def fills(self, tiles: Tiles, machine: Yardstick) -> tuple[Amount, ...]:
        """Shares of the caches and tasks a core, as far as the machine is known."""
        sizes = ((L1, machine.l1_bytes), (L2, machine.l2_bytes), (TASKS, machine.cores))
        found = ((unit, self._size(unit, tiles), whole) for unit, whole in sizes)
        return tuple((unit, rounded(size / whole)) for unit, size, whole in found if whole)

    def filled(self, tiles: Tiles, wanted: Mapping[str, float], machine: Yardstick) -> Tiles:
        """Tiles changed until they fill another machine as wanted: caches, then at least cores."""
        for unit, whole in ((L1, machine.l1_bytes), (L2, machine.l2_bytes)):
            if unit in wanted and whole:
                tiles = self._brought(tiles, unit, wanted[unit] * whole)
        tasks = min(wanted.get(TASKS, 0.0), 1.0) * machine.cores
        if self._size(TASKS, tiles) < tasks:
            tiles = self._brought(tiles, TASKS, tasks)
        return tiles

    def _size(self, unit: str, tiles: Tiles) -> int:
        """Bytes touched between two visits of a cache's level, or the number of tasks."""
        by_axis = [tiles[self.tiling.tiles[axis]] for axis in range(len(self.block.iters))]
        if unit == TASKS:
            return prod(tile[0] for tile in by_axis if len(tile) > 2)
        inside = [prod(tile[_level(unit, tile) :]) for tile in by_axis]
        accesses = {access.buffer: access for access in (*self.block.loads, *self.block.stores)}
        return sum(_touched_bytes(access, inside) for access in accesses.values())

    def _brought(self, tiles: Tiles, unit: str, wanted: float) -> Tiles:
        """Tiles with single primes moved over the border of a level, the most telling first."""

        def gap(one: Tiles) -> float:
            return log_gap(self._size(unit, one), wanted)

        while gap(tiles) > _LEAVE:
            nearest = min(self._moves(tiles, unit), key=gap, default=tiles)
            if gap(nearest) >= gap(tiles):
                break
            tiles = nearest
        return tiles

    def _moves(self, tiles: Tiles, unit: str) -> Iterator[Tiles]:
        for knob in self.tiling.tiles.values():
            tile = tiles[knob]
            border = 1 if unit == TASKS else _level(unit, tile)
            if 0 < border < len(tile) and not (unit == TASKS and len(tile) == 2):
                for source, sink in ((border - 1, border), (border, border - 1)):
                    yield from _moved(tiles, knob, source, sink)


def _level(unit: str, tile: tuple[int, ...]) -> int:
    """Where the factors begin that lie within a cache's level.

    In stock multi-level tiling (`SSRSRS`) L1 sees the two inner spatial levels and the inner
    reduction, L2 all but the outermost spatial level.
    """
    if unit == L1:
        return len(tile) // 2
    return 1 if len(tile) > 2 else 0


def _moved(tiles: Tiles, knob: int, source: int, sink: int) -> Iterator[Tiles]:
    for prime in primes(tiles[knob][source]):
        factors = list(tiles[knob])
        factors[source] //= prime
        factors[sink] *= prime
        yield {**tiles, knob: tuple(factors)}


def _touched_bytes(access: Access, extents: list[int]) -> int:
    elements = prod(
        1 + sum(abs(coef) * (extent - 1) for coef, extent in zip(index.coefs, extents, strict=True))
        for index in access.indices
    )
    return elements * bits_of(access.dtype) // 8
