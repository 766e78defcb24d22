# SPDX-License-Identifier: Apache-2.0
"""Divides once a row instead of once an element: `x[i, j] / s[i]` becomes `x[i, j] * r[i]`.

A vector division takes about ten times as long as a multiplication. The result may differ in the
last bit, as that of any reordered sum.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from kope_tvm.rewrite.attributes import drop_attributes
from kope_tvm.rewrite.elements import indices
from kope_tvm.rewrite.steps import function_of

_SUFFIX = "_reciprocal"


@dataclass(frozen=True)
class _Division:
    """A block that divides by an element which many of its elements share."""

    nest: ast.For
    """The block's outermost loop."""
    store: ast.Assign
    quotient: ast.BinOp
    divisor: ast.Subscript


def with_reciprocals(script: str) -> str | None:
    """The script of a function, as TVM prints it, with its divisions by row values taken out.

    None where it has none.
    """
    function = function_of(ast.parse(script))
    found = list(_divisions(function))
    if not found:
        return None
    for division in found:
        _take_out(function, division)
    drop_attributes(function)
    return ast.unparse(ast.fix_missing_locations(function))


def _divisions(function: ast.FunctionDef) -> Iterator[_Division]:
    shapes = _allocated(function)
    for nest in function.body:
        if not isinstance(nest, ast.For):
            continue
        stores = [node for node in ast.walk(nest) if isinstance(node, ast.Assign)]
        for store in stores:
            quotient, target = store.value, store.targets[0]
            if not isinstance(quotient, ast.BinOp) or not isinstance(quotient.op, ast.Div):
                continue
            divisor = quotient.right
            if isinstance(divisor, ast.Subscript) and isinstance(target, ast.Subscript):
                is_shared = set(indices(divisor)) < set(indices(target))
                if is_shared and ast.unparse(divisor.value) in shapes:
                    yield _Division(nest, store, quotient, divisor)


def _allocated(function: ast.FunctionDef) -> dict[str, ast.Call]:
    """The function's own buffers and how they are made."""
    return {
        ast.unparse(each.targets[0]): each.value
        for each in function.body
        if isinstance(each, ast.Assign) and isinstance(each.value, ast.Call)
        if ast.unparse(each.value.func) == "T.sblock_alloc_buffer"
    }


def _take_out(function: ast.FunctionDef, division: _Division) -> None:
    name = ast.unparse(division.divisor.value)
    fresh = f"{name}{_SUFFIX}"
    made = _allocated(function)
    if fresh not in made:
        source = ast.unparse(made[name])
        extents = _extents(made[name])
        function.body.insert(function.body.index(division.nest), _inverted(name, fresh, extents))
        function.body.insert(_first_statement(function), ast.parse(f"{fresh} = {source}").body[0])
    division.divisor.value = ast.Name(fresh, ast.Load())
    division.quotient.op = ast.Mult()


def _extents(made: ast.Call) -> list[str]:
    shape = made.args[0]
    return [ast.unparse(each) for each in shape.elts] if isinstance(shape, ast.Tuple) else []


def _inverted(name: str, fresh: str, extents: list[str]) -> ast.stmt:
    """The block that makes the reciprocals, once an element of the divisor."""
    loops = [f"r{number}" for number in range(len(extents))]
    axes = ", ".join(f"v_{loop}" for loop in loops)
    bound = [
        f"        v_{loop} = T.axis.spatial({extent}, {loop})"
        for loop, extent in zip(loops, extents, strict=True)
    ]
    lines = [
        f"for {', '.join(loops)} in T.grid({', '.join(extents)}):",
        f"    with T.sblock({fresh!r}):",
        *bound,
        f"        {fresh}[{axes}] = 1.0 / {name}[{axes}]",
    ]
    return ast.parse("\n".join(lines)).body[0]


def _first_statement(function: ast.FunctionDef) -> int:
    """Behind the calls that say something of the function."""
    kinds = [isinstance(each, ast.Expr) for each in function.body]
    return kinds.index(False)
