# SPDX-License-Identifier: Apache-2.0
"""Old and everyday spellings, and what a refusal says of them."""

from __future__ import annotations

import ast

import pytest

from kope_tvm.rewrite.allow_list import first_offence
from kope_tvm.rewrite.spelling import modernised
from kope_tvm.rewrite.text import Refusal, tree_of

FUNCTION = """
@T.prim_func
def f(A: T.Buffer((4,), "float32")):
    {statement}
"""


def spelled(statement: str) -> str:
    tree = modernised(tree_of(FUNCTION.format(statement=statement)))
    assert isinstance(tree.body[0], ast.FunctionDef)
    return ast.unparse(tree.body[0].body[0])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("C = T.alloc_buffer((4,))", "C = T.sblock_alloc_buffer((4,))"),
        ("A[0] = A[1] ** 2", "A[0] = A[1] * A[1]"),
        ("A[0] = (A[1] + 1) ** 2", "A[0] = T.pow(A[1] + 1, 2)"),
        ("A[0] = 1 << A[1]", "A[0] = T.shift_left(1, A[1])"),
        ("A[0] = max(A[1], T.power(A[2], 3))", "A[0] = T.max(A[1], T.pow(A[2], 3))"),
        ("A[0] = tvm.tir.exp(tir.f32(1))", "A[0] = T.exp(T.float32(1))"),
        ("A[0] = A[1].astype('float32')", "A[0] = T.cast(A[1], 'float32')"),
        ("x = A[0]", "x: T.let = A[0]"),
        ("x: T.float32 = A[0]", "x: T.let[T.float32] = A[0]"),
        ("T.func_attr({'global_symbol': 'T.block'})", "pass"),
        ("A[0] = T.all(1 < 2, 2 < 3)", "A[0] = 1 < 2 and 2 < 3"),
    ],
)
def test_statement_is_respelled(old: str, new: str) -> None:
    assert spelled(old) == new


def test_offence_names_line_construct_and_help() -> None:
    text = FUNCTION.format(statement="A[0] = T.call_extern('float32', 'system')")
    assert str(first_offence(modernised(tree_of(text)))) == (
        "line 4: 'T.call_extern' is not allowed in a rewrite; "
        "calls stay inside TVM's pure operators"
    )


def test_lines_are_counted_in_the_reply_not_in_the_fence() -> None:
    with pytest.raises(Refusal) as caught:
        tree_of("Look:\n\n```python\ndef f(:\n```\n")
    assert caught.value.offence.line == 4
