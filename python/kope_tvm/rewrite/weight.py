# SPDX-License-Identifier: Apache-2.0
"""How dear an expression is to TVM's analyses, which take exponential time over some."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kope_tvm.rewrite.expressions import called, refuse_node

MAX_NODES = 500
"""With named values written out, as TVM does where they index a buffer: n doublings are 2**n."""
MAX_DIVISIONS = 6
"""Divisions of divisions; measured on TVM 0.27: 12 take a second, 20 more than five."""
MAX_CONDITIONS = 2
"""Conditions within conditions; measured on TVM 0.27: 5 take three seconds."""

MAX_PASTED = 8000
"""The same for values that index nothing, which TVM writes out when it makes code of them."""

_MORE_THAN_ENOUGH = 1 << 20
_CHOICES = frozenset({"if_then_else", "Select"})
_DIVISIONS = frozenset({"floordiv", "floormod", "truncdiv", "truncmod", "ceildiv"})


@dataclass(frozen=True)
class Weight:
    """Of one expression; the last two count levels of nesting."""

    nodes: int = 1
    divisions: int = 0
    conditions: int = 0


def weight_of(node: ast.expr, named: Mapping[str, Weight], *, is_pasted: bool = False) -> Weight:
    """The weight of an expression, `named` values written out within indices.

    With `is_pasted` they are everywhere, as where the expression comes to stand in an index.
    """
    if isinstance(node, ast.Name):
        return named.get(node.id, Weight()) if is_pasted else Weight()
    if isinstance(node, ast.Subscript):
        is_pasted = True
    parts = [weight_of(child, named, is_pasted=is_pasted) for child in _operands(node)]
    within = _sum(parts)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv | ast.Mod):
        return Weight(within.nodes, within.divisions + 1, within.conditions)
    if called(node) in _DIVISIONS:
        return Weight(within.nodes, within.divisions + 1, within.conditions)
    if isinstance(node, ast.IfExp) or called(node) in _CHOICES:
        return Weight(within.nodes, within.divisions, max(within.conditions, _test(node, named)))
    return within


def check_weight(node: ast.expr, named: Mapping[str, Weight]) -> Weight:
    """Refuse an expression that TVM could take seconds over; raises Refusal."""
    weight = weight_of(node, named)
    if weight.nodes > MAX_NODES:
        why = f"with the values that index a buffer written out it has {weight.nodes} terms"
        raise refuse_node(node, why)
    pasted = weight_of(node, named, is_pasted=True).nodes
    if pasted > MAX_PASTED:
        why = f"with its values written out it has {pasted} terms; keep those it is made of in a "
        raise refuse_node(node, why + 'buffer, e.g. t = T.sblock_alloc_buffer((16,), "float32")')
    if weight.divisions > MAX_DIVISIONS:
        raise refuse_node(node, f"at most {MAX_DIVISIONS} divisions are nested")
    if weight.conditions > MAX_CONDITIONS:
        raise refuse_node(node, f"at most {MAX_CONDITIONS} conditions are nested in conditions")
    return weight


def _test(node: ast.expr, named: Mapping[str, Weight]) -> int:
    test = node.test if isinstance(node, ast.IfExp) else None
    if isinstance(node, ast.Call) and node.args:
        test = node.args[0]
    if test is None:
        return 1
    return 1 + weight_of(test, named, is_pasted=True).conditions


def _operands(node: ast.AST) -> Iterable[ast.expr]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Slice):
            yield from _operands(child)
        elif isinstance(child, ast.expr) and not isinstance(child, ast.Constant | ast.Attribute):
            yield child


def _sum(parts: list[Weight]) -> Weight:
    return Weight(
        min(1 + sum(part.nodes for part in parts), _MORE_THAN_ENOUGH),
        max((part.divisions for part in parts), default=0),
        max((part.conditions for part in parts), default=0),
    )
