# SPDX-License-Identifier: Apache-2.0
"""The recipes worth trying for a function: a first guess from the machine's facts, and steps away.

A contraction gets a tile that fills the vector registers; rows that are reduced and then used are
taken a few at a time, a few vectors along; a mere reduction or a chain is one op first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property

from kope_tvm.mlir.outline import LinalgOp, Outline, outline
from kope_tvm.mlir.recipe import Recipe, Sizes
from kope_tvm.target import Facts

_FLOAT_BITS = 32
_LEAST_LANES = 4
_LEAST_REGISTERS = 16
_SPARE_REGISTERS = 2
"""For what is broadcast, beside the accumulators and a row of the other operand."""
_MOST_ROWS = 16
_VECTORS = (1, 2, 3, 4)
_MANY_VECTORS = (1, 2, 4, 8, 16)
_DEPTHS = (1, 2, 4)
_BLOCKS = (0, 4, 8, 16)
"""Of how many tiles a block of columns is; 0 for none."""


class Style(Enum):
    """What kind of function it is, as tiling goes."""

    CONTRACTION = "contraction"
    ROWS = "rows"
    """Each row is reduced, and the result used along it."""
    REDUCTION = "reduction"
    ELEMENTWISE = "elementwise"


@dataclass(frozen=True)
class Knobs:
    """One point of the space."""

    rows: int
    columns: int
    """Elements, a whole number of vectors where any fits."""
    depth: int = 1
    """Of a reduction that does not run along the lanes."""
    block: int = 0


class RecipeSpace:
    """The recipes of one function on one machine."""

    def __init__(self, text: str, name: str, facts: Facts) -> None:
        plain = outline(text, name, fuse_elementwise=False)
        self.style = _style(plain)
        self.is_fused = self.style in (Style.REDUCTION, Style.ELEMENTWISE) and len(plain.fed) > 1
        self.ops = outline(text, name, fuse_elementwise=True) if self.is_fused else plain
        self._lanes = max(facts.vlen_bits // _FLOAT_BITS, _LEAST_LANES)
        self._registers = max(facts.vector_registers, _LEAST_REGISTERS)

    @property
    def first(self) -> Knobs:
        """The best guess from the facts alone."""
        columns = self._nearest(self._columns, 2 * self._lanes)
        if self.style is Style.CONTRACTION:
            vectors = max(1, columns // self._lanes)
            most = (self._registers - _SPARE_REGISTERS - vectors) // vectors
            return Knobs(max([each for each in self._rows if each <= most] or [1]), columns)
        rows = self._nearest(self._rows, 2) if self.style is Style.ROWS else 1
        return Knobs(rows, columns)

    def neighbours(self, knobs: Knobs) -> Iterator[Knobs]:
        """One step away, each way of each knob."""
        lists = {"rows": self._rows, "columns": self._columns}
        lists |= {"depth": self._depths, "block": self._blocks(knobs)}
        for name, values in lists.items():
            at = values.index(getattr(knobs, name)) if getattr(knobs, name) in values else 0
            for step in (1, -1):
                if 0 <= at + step < len(values):
                    moved = replace(knobs, **{name: values[at + step]})
                    yield moved if moved.block in self._blocks(moved) else replace(moved, block=0)

    def recipe(self, knobs: Knobs) -> Recipe:
        """What the knobs stand for."""
        outer = self._outer(knobs)
        inner = tuple(self._inner(op, knobs) for op in self.ops.fed)
        return Recipe(outer, inner, self.is_fused)

    def nearest_to(self, rows: int, columns: int, depth: int) -> Knobs:
        """The point that is most like a tile found elsewhere."""
        return Knobs(
            self._nearest(self._rows, rows),
            self._nearest(self._columns, columns),
            self._nearest(self._depths, depth),
        )

    def knobs_of(self, recipe: Recipe) -> Knobs | None:
        """The point that a recipe is; None where it is none of these."""
        tile = recipe.outer[-1] if recipe.outer else ()
        at = self._row_dim
        rows = tile[at] if 0 <= at < len(tile) else 1
        inner = [size for sizes in recipe.inner for size in sizes if size > 1]
        columns = tile[-1] if self._column_dim < len(tile) and tile[-1] else max(inner, default=0)
        blocks = [level[-1] for level in recipe.outer[:-1] if level]
        for depth in self._depths:
            knobs = Knobs(rows or 1, columns, depth, blocks[0] if blocks else 0)
            if self.recipe(knobs) == recipe:
                return knobs
        return None

    @property
    def _last(self) -> LinalgOp:
        return self.ops.last

    @cached_property
    def _is_along(self) -> bool:
        """Whether what is reduced lies along the lanes."""
        if self.style is Style.ROWS:
            return True
        is_mere = self.style is Style.REDUCTION and self._last.reduced
        return bool(is_mere and self._last.reduced[-1] in self._last.last_input)

    @cached_property
    def _column_dim(self) -> int:
        """Of the last op, the dimension that vectors lie along."""
        if self._is_along and self._last.reduced:
            return self._last.reduced[-1]
        return self._last.parallel[-1]

    @cached_property
    def _row_dim(self) -> int:
        """The innermost other dimension that there is more than one of; -1 for none."""
        others = [at for at in self._last.parallel if at != self._column_dim]
        return max((at for at in others if self._last.extents[at] > 1), default=-1)

    @cached_property
    def _rows(self) -> list[int]:
        extent = self._last.extents[self._row_dim] if self._row_dim >= 0 else 1
        return [each for each in range(1, _MOST_ROWS + 1) if extent % each == 0]

    @cached_property
    def _columns(self) -> list[int]:
        extent = self._last.extents[self._column_dim]
        is_many = self.style in (Style.REDUCTION, Style.ELEMENTWISE)
        wanted = [each * self._lanes for each in (_MANY_VECTORS if is_many else _VECTORS)]
        found = [each for each in wanted if extent % each == 0]
        whole = [each for each in range(1, self._lanes) if extent % each == 0]
        return found or whole[-1:]

    @cached_property
    def _depths(self) -> list[int]:
        reducing = [op for op in self.ops.fed if op.reduced]
        if self._is_along or not reducing:
            return [1]
        extent = reducing[-1].extents[reducing[-1].reduced[-1]]
        is_window = extent < _LEAST_LANES
        return [1] if is_window else [each for each in _DEPTHS if extent % each == 0]

    def _blocks(self, knobs: Knobs) -> list[int]:
        if self.style is not Style.CONTRACTION or self._row_dim < 0:
            return [0]
        extent = self._last.extents[self._column_dim]
        sizes = [each * knobs.columns for each in _BLOCKS]
        return [each for each in sizes if not each or (each < extent and extent % each == 0)]

    def _outer(self, knobs: Knobs) -> tuple[Sizes, ...]:
        dims = range(max(self._last.parallel) + 1)
        sizes = dict.fromkeys(self._last.parallel, 1)
        sizes[self._row_dim] = knobs.rows
        sizes[self._column_dim] = 0 if self._is_along else knobs.columns
        tile = tuple(sizes.get(at, 0) for at in dims)
        if not knobs.block:
            return (_cut(tile),)
        block = tuple(knobs.block if at == self._column_dim else 0 for at in dims)
        return (block, tile)

    def _inner(self, op: LinalgOp, knobs: Knobs) -> Sizes:
        if op.is_fill:
            return ()
        if self._is_along:
            is_long = len(op.extents) > self._column_dim
            return _only(op, self._column_dim, knobs.columns) if is_long else ()
        sizes = dict.fromkeys(op.reduced, 1)
        if op.reduced:
            sizes[op.reduced[-1]] = knobs.depth
        return _cut(tuple(sizes.get(at, 0) for at in range(len(op.extents))))

    @staticmethod
    def _nearest(values: Sequence[int], wanted: int) -> int:
        return min(values, key=lambda each: (abs(each - wanted), each))


def _style(ops: Outline) -> Style:
    if any(op.is_contraction for op in ops.fed):
        return Style.CONTRACTION
    if ops.last.reduced:
        return Style.REDUCTION
    return Style.ROWS if any(op.reduced for op in ops.fed) else Style.ELEMENTWISE


def _only(op: LinalgOp, dim: int, size: int) -> Sizes:
    return tuple(size if at == dim else 0 for at in range(len(op.extents)))


def _cut(sizes: Sizes) -> Sizes:
    """Without the zeros at its end."""
    while sizes and not sizes[-1]:
        sizes = sizes[:-1]
    return sizes
