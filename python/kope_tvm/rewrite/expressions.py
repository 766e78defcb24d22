# SPDX-License-Identifier: Apache-2.0
"""The expressions of a rewrite: numbers, names in scope, elements, pure functions of `T`."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable

from kope_tvm.rewrite import constructs
from kope_tvm.rewrite.text import Refusal

_OPERATORS = (
    *(ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod),
    *(ast.BitAnd, ast.BitOr, ast.BitXor, ast.LShift, ast.RShift),
    *(ast.USub, ast.UAdd, ast.Not, ast.Invert, ast.And, ast.Or),
    *(ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE),
)
MAX_SHIFT = 63


def refuse_node(node: ast.AST, why: str = "") -> Refusal:
    """What a tree holds that is on no list."""
    shown = ast.unparse(node).split("\n")[0]
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    kind = type(node).__name__
    helped = why or constructs.HELP.get(kind.lower(), f"{kind} is not part of what is read")
    line = getattr(node, "lineno", 1)
    return Refusal(line, repr(shown), f"is not allowed in a rewrite; {helped}")


def of_t(node: ast.expr) -> str:
    """`grid` of `T.grid`, `axis.remap` of `T.axis.remap`; empty for any other expression."""
    if not isinstance(node, ast.Attribute):
        return ""
    inner = node.value
    if isinstance(inner, ast.Name):
        return node.attr if inner.id == constructs.NAMESPACE else ""
    return f"axis.{node.attr}" if of_t(inner) == "axis" else ""


def called(node: ast.expr) -> str:
    """The construct of `T` that an expression calls; empty where it calls none."""
    return of_t(node.func) if isinstance(node, ast.Call) else ""


def check_number(node: ast.expr, names: Collection[str]) -> None:
    """Refuse what is not a number made of `names`; raises Refusal."""
    if isinstance(node, ast.Constant):
        _check_constant(node)
    elif isinstance(node, ast.Name):
        if node.id not in names:
            raise refuse_node(node, "nothing of that name is bound here")
    elif isinstance(node, ast.Subscript):
        check_element(node, names, slices=False)
    elif isinstance(node, ast.Call):
        _check_call(node, names)
    else:
        _check_operation(node, names)


def _check_constant(node: ast.Constant) -> None:
    value = node.value
    if isinstance(value, bool) or type(value) is float:
        return
    if type(value) is not int:
        raise refuse_node(node, "only numbers stand here")
    if value > constructs.MAX_INT:
        raise Refusal(node.lineno, "an integer", f"is larger than {constructs.MAX_INT}")


def _check_operation(node: ast.expr, names: Collection[str]) -> None:
    operators, operands = _operation(node)
    for operator in operators:
        if not isinstance(operator, _OPERATORS):
            raise refuse_node(node, f"the operator {type(operator).__name__} is not read")
    for operand in operands:
        check_number(operand, names)
    if isinstance(node, ast.BinOp):
        _check_folding(node)


def _operation(node: ast.expr) -> tuple[list[ast.AST], list[ast.expr]]:
    if isinstance(node, ast.BinOp):
        return [node.op], [node.left, node.right]
    if isinstance(node, ast.UnaryOp):
        return [node.op], [node.operand]
    if isinstance(node, ast.BoolOp):
        return [node.op], node.values
    if isinstance(node, ast.Compare):
        return list(node.ops), [node.left, *node.comparators]
    if isinstance(node, ast.IfExp):
        return [], [node.test, node.body, node.orelse]
    raise refuse_node(node)


def _check_folding(node: ast.BinOp) -> None:
    """The parser computes with Python's integers, which have no size of their own."""
    if isinstance(node.op, ast.LShift):
        amount = node.right.value if isinstance(node.right, ast.Constant) else None
        if type(amount) is not int or amount > MAX_SHIFT:
            raise refuse_node(node, f"shift by a literal of at most {MAX_SHIFT}")
    if folded_bits(node) > constructs.MAX_FOLDED_BITS:
        raise refuse_node(node, f"it exceeds {constructs.MAX_FOLDED_BITS} bits")


def folded_bits(node: ast.expr) -> int:
    """An upper bound of the bits of what Python computes; 0 where TVM computes."""
    if isinstance(node, ast.Constant):
        return int(node.value).bit_length() if isinstance(node.value, int) else 0
    if isinstance(node, ast.UnaryOp):
        return folded_bits(node.operand)
    if not isinstance(node, ast.BinOp):
        return 0
    left, right = folded_bits(node.left), folded_bits(node.right)
    if isinstance(node.op, ast.LShift):
        amount = node.right.value if isinstance(node.right, ast.Constant) else 0
        return left + int(amount) if isinstance(amount, int) else 0
    if isinstance(node.op, ast.Mult):
        return left + right
    return max(left, right) + 1 if left and right else max(left, right)


def check_element(node: ast.expr, names: Collection[str], *, slices: bool) -> None:
    """Refuse what is not `buffer[index, ...]`; ranges `a:b` only where `slices`."""
    if not isinstance(node, ast.Subscript) or not isinstance(node.value, ast.Name):
        raise refuse_node(node, "an element of a buffer stands here, such as A[i, j]")
    check_number(node.value, names)
    index = node.slice
    for each in index.elts if isinstance(index, ast.Tuple) else [index]:
        if not isinstance(each, ast.Slice):
            check_number(each, names)
            continue
        if not slices or each.step is not None:
            raise refuse_node(node, "ranges stand only in T.reads and T.writes")
        for bound in (each.lower, each.upper):
            if bound is not None:
                check_number(bound, names)


def check_numbers(nodes: Iterable[ast.expr], names: Collection[str]) -> None:
    """`check_number` of each."""
    for node in nodes:
        check_number(node, names)


def check_string(node: ast.AST | None, allowed: Collection[str], kind: str) -> str:
    """Refuse a string that is not one of `allowed`; raises Refusal."""
    value = node.value if isinstance(node, ast.Constant) else None
    if not isinstance(value, str) or value not in allowed:
        shown = node if node is not None else ast.Constant(None)
        raise refuse_node(shown, f"expected a {kind}: one of {', '.join(sorted(allowed))}")
    return value


def _check_call(node: ast.Call, names: Collection[str]) -> None:
    """A function of `T` from numbers to a number, or `float("-inf")`."""
    function = called(node)
    if isinstance(node.func, ast.Name) and node.func.id == "float":
        if len(node.args) != 1 or node.keywords:
            raise refuse_node(node)
        check_string(node.args[0], constructs.SPECIAL_FLOATS, "special number")
        return
    if function not in constructs.VALUES:
        raise refuse_call(node)
    for keyword in node.keywords:
        if keyword.arg != "dtype":
            raise refuse_node(node, f"its argument {keyword.arg!r} is not read")
        check_string(keyword.value, constructs.DTYPES, "dtype")
    _check_arguments(node, function, names)


def _check_arguments(node: ast.Call, function: str, names: Collection[str]) -> None:
    args = node.args
    if function in constructs.LIMITS_OF_DTYPES:
        _expect(node, args, 1)
        check_string(args[0], constructs.SCALARS, "dtype")
    elif function == "reinterpret":
        _expect(node, args, 2)
        check_string(args[0], constructs.SCALARS, "dtype")
        check_numbers(args[1:], names)
    elif function in ("cast", "Cast"):
        _expect(node, args, 1 if node.keywords else 2)
        dtypes = args[:1] if function == "Cast" else args[1:]
        check_numbers(args[1:] if function == "Cast" else args[:1], names)
        for dtype in dtypes:
            check_string(dtype, constructs.DTYPES, "dtype")
    else:
        _expect(node, args, constructs.ARITY[function])
        special = function in constructs.CONVERSIONS and _is_special(args[0])
        check_numbers([] if special else args, names)


def _is_special(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and node.value in constructs.SPECIAL_FLOATS
    )


def _expect(node: ast.Call, args: list[ast.expr], num: int) -> None:
    if len(args) != num:
        raise refuse_node(node, f"it takes {num} arguments, {len(args)} given")


def refuse_call(node: ast.Call) -> Refusal:
    """A call of what is on no list."""
    function = called(node)
    helped = constructs.HELP.get(function, "it is not among the functions that are read")
    if not function:
        helped = "only functions of T are called"
    shown = ast.unparse(node.func)
    return Refusal(
        node.lineno,
        repr(shown if len(shown) <= 60 else shown[:57] + "..."),
        f"is not allowed in a rewrite; {helped}",
    )
