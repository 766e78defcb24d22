# SPDX-License-Identifier: Apache-2.0
"""What TVM prints of a function beside its body; a rewritten body has its own."""

from __future__ import annotations

import ast


def drop_attributes(function: ast.AST) -> None:
    """Those of the function are the original's; regions are found again by the parser."""
    for node in ast.walk(function):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [each for each in body if not _is_attribute(each)]  # type: ignore[attr-defined]


def _is_attribute(statement: ast.stmt) -> bool:
    call = statement.value if isinstance(statement, ast.Expr) else None
    attributes = {"T.func_attr", "T.sblock_attr", "T.reads", "T.writes"}
    return isinstance(call, ast.Call) and ast.unparse(call.func) in attributes
