# SPDX-License-Identifier: Apache-2.0
"""Says of an exponent that it is not positive: `exp(x[i, j] - m[i])`, `m` being the rows' maximum.

`exp(min(x - m, 0))` is the same number, and vectors of it need no care for what overflows
(`schedules/vecmath.py`). Written as a Select, through which NaN goes as it did.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import count

from kope_tvm.rewrite.attributes import drop_attributes
from kope_tvm.rewrite.elements import indices


def with_limited_exponents(script: str) -> str | None:
    """The script of a function, as TVM prints it, with its exponents limited to zero.

    None where none is a difference from a maximum over the same values.
    """
    tree = ast.parse(script)
    maxima = {name: value for store in _stores(tree) for name, value in _maximum(store)}
    found = [call for call in _exponentials(tree) if _is_from_maximum(call.args[0], maxima)]
    for call in found:
        raw = ast.unparse(call.args[0])
        call.args[0] = ast.parse(f"T.Select({raw} > 0.0, 0.0, {raw})", mode="eval").body
    if not found:
        return None
    drop_attributes(tree)
    return ast.unparse(ast.fix_missing_locations(tree))


def _stores(tree: ast.Module) -> Iterator[ast.Assign]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
            yield node


def _maximum(store: ast.Assign) -> Iterator[tuple[str, str]]:
    """The buffer that keeps a maximum, and the name of that whose elements it is of."""
    target, value = store.targets[0], store.value
    if not isinstance(value, ast.Call) or ast.unparse(value.func) != "T.max":
        return
    before, element = value.args
    is_running = ast.unparse(before) == ast.unparse(target)
    if is_running and isinstance(target, ast.Subscript) and isinstance(element, ast.Subscript):
        yield ast.unparse(target.value), _shape_of_access(element, target)


def _shape_of_access(element: ast.Subscript, row: ast.Subscript) -> str:
    """The element as text, its indices named by their place in the row's, the others alike."""
    places = {index: f"row {at}" for at, index in enumerate(indices(row))}
    others = count()
    named = [places.get(index) or f"other {next(others)}" for index in indices(element)]
    return f"{ast.unparse(element.value)}[{', '.join(named)}]"


def _exponentials(tree: ast.Module) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "T.exp":
            yield node


def _is_from_maximum(exponent: ast.expr, maxima: dict[str, str]) -> bool:
    if not isinstance(exponent, ast.BinOp) or not isinstance(exponent.op, ast.Sub):
        return False
    element, row = exponent.left, exponent.right
    if not isinstance(element, ast.Subscript) or not isinstance(row, ast.Subscript):
        return False
    return maxima.get(ast.unparse(row.value)) == _shape_of_access(element, row)
