# SPDX-License-Identifier: Apache-2.0
"""The assignments of a function as TVM prints it, each with the loops around it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from kope_tvm.rewrite.elements import indices


@dataclass(frozen=True)
class Extent:
    """Of a loop."""

    size: int
    is_long: bool = False
    """Whether it is an int64, as Relax writes them."""

    def __str__(self) -> str:
        return f"T.int64({self.size})" if self.is_long else str(self.size)


@dataclass(frozen=True)
class Step:
    """The last assignment of a block: what a reduction starts from is none."""

    nest: ast.For
    target: ast.Subscript
    value: ast.expr

    @property
    def buffer(self) -> str:
        return ast.unparse(self.target.value)

    @property
    def loads(self) -> list[ast.Subscript]:
        """The elements that the value is made of, as they are read; a running sum is one."""
        found = [node for node in ast.walk(self.value) if isinstance(node, ast.Subscript)]
        return sorted(found, key=lambda node: node.col_offset)

    @property
    def extents(self) -> dict[str, Extent]:
        """Of the block's iterators; empty where they are not the loops of one static grid."""
        loops, grid = self.nest.target, self.nest.iter
        block = self.nest.body[0]
        first = block.body[0] if isinstance(block, ast.With) else None
        if not (isinstance(loops, ast.Tuple) and isinstance(grid, ast.Call)):
            return {}
        if not (isinstance(first, ast.Assign) and "T.axis.remap" in ast.unparse(first.value)):
            return {}
        sizes = [_extent(size) for size in grid.args]
        names = first.targets[0]
        named = names.elts if isinstance(names, ast.Tuple) else [names]
        found = zip(map(ast.unparse, named), sizes, strict=True)
        return {name: size for name, size in found if size} if all(sizes) else {}


def function_of(tree: ast.Module) -> ast.FunctionDef:
    """The only one of a script."""
    return next(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def steps(function: ast.FunctionDef) -> Iterator[Step]:
    """Those that have loops of their own, in order."""
    for nest in (each for each in function.body if isinstance(each, ast.For)):
        for block in ast.walk(nest):
            last = block.body[-1] if isinstance(block, ast.With) and _is_block(block) else None
            if isinstance(last, ast.Assign) and isinstance(last.targets[0], ast.Subscript):
                yield Step(nest, last.targets[0], last.value)


def _extent(size: ast.expr) -> Extent | None:
    """None where it is no constant."""
    is_long = isinstance(size, ast.Call) and ast.unparse(size.func) == "T.int64"
    number = size.args[0] if isinstance(size, ast.Call) and is_long else size
    is_number = isinstance(number, ast.Constant) and isinstance(number.value, int)
    return Extent(int(ast.unparse(number)), is_long) if is_number else None


def _is_block(scope: ast.With) -> bool:
    return ast.unparse(scope.items[0].context_expr).startswith("T.sblock(")


def by_part(step: Step, buffers: dict[str, str], num_rows: int) -> str:
    """The value as text without spaces: buffers by the names given, iterators by their part.

    `r0`... are the first of the target, `k` is any other.
    """
    rows = {name: f"r{at}" for at, name in enumerate(indices(step.target)[:num_rows])}
    value = ast.parse(ast.unparse(step.value), mode="eval").body
    for node in ast.walk(value):
        if isinstance(node, ast.Name) and node.id != "T":
            node.id = buffers.get(node.id) or rows.get(node.id) or "k"
    return ast.unparse(value).replace(" ", "")
