# SPDX-License-Identifier: Apache-2.0
"""Whether a layout map sends each index to a place of its own.

TVM asks too late: it takes maps that send two elements to one place, and for some others it ends
the process.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from kope_tvm.plan.step_error import StepError

_MOST_INDICES = 1 << 22
"""Tried one by one, in a tenth of a second."""
_LARGEST = 1 << 40


def value_at(node: ast.expr, indices: Mapping[str, Any]) -> Any:
    """A checked expression of a map, with these for its arguments."""
    if isinstance(node, ast.Name):
        return indices[node.id]
    if isinstance(node, ast.Constant):
        return node.value
    assert isinstance(node, ast.BinOp)
    left, right = value_at(node.left, indices), value_at(node.right, indices)
    if isinstance(node.op, ast.Add):
        return left + right
    if isinstance(node.op, ast.Sub):
        return left - right
    if isinstance(node.op, ast.Mult):
        return left * right
    return left // right if isinstance(node.op, ast.FloorDiv) else left % right


def check_one_to_one(results: Sequence[ast.expr], sizes: Mapping[str, int], may_pad: bool) -> None:
    """Raises StepError where two indices share a place, or places stay empty and may not."""
    moved = _moved(results)
    rest = [one for one in results if not (isinstance(one, ast.Name) and one.id in moved)]
    mixed = {name: size for name, size in sizes.items() if name not in moved}
    if min(mixed.values(), default=1) < 1:
        raise StepError("map", "only whole dimensions move where the size is not constant")
    total = prod(mixed.values())
    if total > _MOST_INDICES or any(_bound(one, mixed) > _LARGEST for one in rest):
        raise StepError("map", f"it mixes {total} indices, at most {_MOST_INDICES} are checked")
    num_places = _num_places(rest, mixed, total)
    if num_places != total and not may_pad:
        reason = f"the map leaves {num_places - total} of {num_places} places empty"
        raise StepError("map", f"{reason}: take numbers that divide, or give `pad`")


def _moved(results: Sequence[ast.expr]) -> set[str]:
    """Arguments that are one dimension of the result as they are, and are nowhere else."""
    used = [node.id for one in results for node in ast.walk(one) if isinstance(node, ast.Name)]
    return {one.id for one in results if isinstance(one, ast.Name) and used.count(one.id) == 1}


def _bound(node: ast.expr, sizes: Mapping[str, int]) -> int:
    """No intermediate value is larger, so that 64 bits hold them all."""
    if isinstance(node, ast.Name):
        return sizes[node.id]
    if isinstance(node, ast.Constant):
        return int(node.value)  # type: ignore[arg-type]
    assert isinstance(node, ast.BinOp)
    left, right = _bound(node.left, sizes), _bound(node.right, sizes)
    return left * right if isinstance(node.op, ast.Mult) else left + right


def _num_places(results: Sequence[ast.expr], sizes: Mapping[str, int], total: int) -> int:
    """Of the box that holds the values of all indices; raises StepError where two are the same."""
    grid = np.indices(tuple(sizes.values()), dtype=np.int64).reshape(len(sizes), total)
    indices = dict(zip(sizes, grid, strict=True))
    place, num_places = np.zeros(total, np.int64), 1
    for result in results:
        value = np.broadcast_to(value_at(result, indices), (total,))
        if value.min() != 0:
            text = ast.unparse(result)
            raise StepError("map", f"{text} starts at {value.min()}; dimensions start at 0")
        place = place * (int(value.max()) + 1) + value
        num_places *= int(value.max()) + 1
        if num_places > _LARGEST:
            raise StepError("map", f"the result would have {num_places} places or more")
    if len(np.unique(place)) != total:
        raise StepError("map", "it sends two indices to one place")
    return num_places
