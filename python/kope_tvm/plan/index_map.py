# SPDX-License-Identifier: Apache-2.0
"""Reads a layout map such as `lambda i, j: (i // 16, j, i % 16)`; it is parsed, never evaluated."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from kope_tvm.plan.one_to_one import check_one_to_one, value_at
from kope_tvm.plan.step_error import StepError
from kope_tvm.space import fitted_tile

IndexMap = Callable[..., list[Any]]

_MOST_DIMS = 8
_LARGEST = 1 << 20


def index_map(text: str, shape: Sequence[int], *, may_pad: bool = False) -> IndexMap:
    """The map as a function of index expressions, for a buffer of `shape`, -1 where unknown.

    Raises StepError for anything but + - * // % of the arguments and of integers, for a map that
    is not one to one, and unless `may_pad` for one that leaves places empty.
    """
    names, results = _parsed(text, len(shape))
    check_one_to_one(results, dict(zip(names, shape, strict=True)), may_pad)
    return lambda *indices: [
        value_at(result, dict(zip(names, indices, strict=True))) for result in results
    ]


def fitted_map(text: str, shape: Sequence[int]) -> str:
    """The map with each `// n` and `% n` of an argument by the divisor nearest to n of its size.

    Raises StepError as `index_map` does.
    """
    _parsed(text, len(shape))
    tree = ast.parse(text.strip(), mode="eval")
    assert isinstance(tree.body, ast.Lambda)
    sizes = dict(zip((arg.arg for arg in tree.body.args.args), shape, strict=True))
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and isinstance(node.left, ast.Name):
            size, by = sizes[node.left.id], node.right
            if isinstance(node.op, ast.FloorDiv | ast.Mod) and isinstance(by, ast.Constant):
                by.value = _nearest(by.value, size)
    return ast.unparse(tree)


def _nearest(number: Any, size: int) -> int:
    if size < 1 or size % number == 0:
        return int(number)
    return fitted_tile((1, number), size)[1]


def _parsed(text: str, num_dims: int) -> tuple[list[str], list[ast.expr]]:
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise StepError("map", "not of the form lambda i, j: (i // 16, j, i % 16)") from None
    if not isinstance(tree, ast.Lambda) or not _is_plain(tree.args):
        raise StepError("map", "expected lambda i, j: (...) with plain arguments")
    body = tree.body
    results = list(body.elts) if isinstance(body, ast.Tuple | ast.List) else [body]
    if not 1 <= len(results) <= _MOST_DIMS:
        raise StepError("map", f"{len(results)} dimensions, expected 1 to {_MOST_DIMS}")
    names = [arg.arg for arg in tree.args.args]
    if len(names) != num_dims:
        raise StepError("map", f"{len(names)} arguments for a buffer of {num_dims} dimensions")
    for result in results:
        _check(result, names)
    return names, results


def _is_plain(args: ast.arguments) -> bool:
    extra = (args.posonlyargs, args.kwonlyargs, args.defaults, args.vararg, args.kwarg)
    return not any(extra) and not any(arg.annotation for arg in args.args)


def _check(node: ast.expr, names: list[str]) -> None:
    if isinstance(node, ast.BinOp):
        _check_operands(node)
        _check(node.left, names)
        _check(node.right, names)
    elif isinstance(node, ast.Name):
        if node.id not in names:
            raise StepError("map", f"{node.id!r} is no argument; arguments: {', '.join(names)}")
    elif not isinstance(node, ast.Constant) or not _is_index(node.value):
        what = "integers up to 1048576" if isinstance(node, ast.Constant) else "+ - * // %"
        raise StepError("map", f"{type(node).__name__} is not allowed; use names and {what}")


def _check_operands(node: ast.BinOp) -> None:
    if not isinstance(node.op, ast.Add | ast.Sub | ast.Mult | ast.FloorDiv | ast.Mod):
        raise StepError("map", f"operator {type(node.op).__name__} is not among + - * // %")
    if isinstance(node.left, ast.Constant) and isinstance(node.right, ast.Constant):
        raise StepError("map", "work out what has no index in it")
    divides = isinstance(node.op, ast.FloorDiv | ast.Mod)
    divisor = node.right.value if isinstance(node.right, ast.Constant) else 0
    if divides and not (_is_index(divisor) and divisor):
        raise StepError("map", "// and % take a positive integer on the right")


def _is_index(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST
