# SPDX-License-Identifier: Apache-2.0
"""Where each decision stands on the page: a column a step, the winning way along the first row.

Layered layouts put all of a step on one line, and searches try hundreds from one state: here what
is below a decision is broken into columns like the text of a newspaper where it is long.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, sqrt

from kope_tvm.graph_view.tree import DecisionTree

_LONGEST_COLUMN = 24
"""Rows that stand in a single column, however narrow."""
_ROWS_TO_COLUMNS = 3.0
"""Of n cells that many times the root of n are a column: about a square, as cells are wide."""


@dataclass(frozen=True)
class Place:
    """A cell of the page's grid."""

    column: int
    row: int
    is_far: bool = False
    """Whether it is in a later column than the first below its decision."""


@dataclass(frozen=True)
class Layout:
    """Places of the decisions by key, and of what is hidden below them, by the same keys."""

    places: dict[str, Place]
    hidden: dict[str, Place]
    num_rows: int


@dataclass(frozen=True)
class _Block:
    """A decision with all that is below it, in cells."""

    rows: int
    columns: int


def lay_out(tree: DecisionTree) -> Layout:
    """Cells for a tree; no two things share one."""
    below: dict[str, list[str]] = {"": []}
    for one in tree.branches:
        below.setdefault(one.under, []).append(one.key)
        below[one.key] = []
    order = ["", *(one.key for one in tree.branches)]
    for hidden in tree.hidden:
        below[hidden.under].append(_hidden(hidden.under))
    blocks = {_hidden(one.under): _Block(1, 1) for one in tree.hidden}
    for key in reversed(order):
        blocks[key] = _block(below[key], blocks)
    places = {"": Place(0, 0)}
    for key in order:
        at = places[key]
        for child, offset in _flow(below[key], blocks):
            place = Place(at.column + offset.column, at.row + offset.row, offset.is_far)
            places[child] = place
    left_out = {one.under: places.pop(_hidden(one.under)) for one in tree.hidden}
    return Layout(places, left_out, blocks[""].rows)


def _hidden(under: str) -> str:
    return f"hidden {under}"


def _block(keys: Sequence[str], blocks: Mapping[str, _Block]) -> _Block:
    rows, columns = 1, 1
    for key, place in _flow(keys, blocks):
        rows = max(rows, place.row + blocks[key].rows)
        columns = max(columns, place.column + blocks[key].columns)
    return _Block(rows, columns)


def _flow(keys: Sequence[str], blocks: Mapping[str, _Block]) -> Iterator[tuple[str, Place]]:
    """Places of what is below a decision, seen from it."""
    height = _height([blocks[key] for key in keys])
    left, right, row = 1, 1, 0
    for key in keys:
        block = blocks[key]
        if row and row + block.rows > height:
            left, row = right, 0
        yield key, Place(left, row, is_far=left > 1)
        row += block.rows
        right = max(right, left + block.columns)


def _height(found: Sequence[_Block]) -> int:
    total = sum(one.rows for one in found)
    if total <= _LONGEST_COLUMN:
        return total
    cells = total * max(one.columns for one in found)
    return max(_LONGEST_COLUMN, ceil(_ROWS_TO_COLUMNS * sqrt(cells)))
