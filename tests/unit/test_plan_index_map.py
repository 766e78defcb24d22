# SPDX-License-Identifier: Apache-2.0
"""Layout maps: arithmetic on the arguments, and nothing else that Python could say."""

from __future__ import annotations

import pytest

from kope_tvm.plan.index_map import fitted_map, index_map
from kope_tvm.plan.step_error import StepError


def test_a_map_is_its_arithmetic() -> None:
    mapped = index_map(
        "lambda i, j: (i // 4 * 2 + j % 2, 0, j - j % 2, i % 4)", (12, 6), may_pad=True
    )
    assert mapped(9, 5) == [5, 0, 4, 1]


def test_a_map_to_one_dimension_needs_no_parentheses() -> None:
    assert index_map("lambda i, j: i * 8 + j", (4, 8))(2, 3) == [19]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("lambda i: __import__('os').system('true')", "Call is not allowed"),
        ("lambda i: i.__class__", "Attribute is not allowed"),
        ("lambda i: [j for j in i]", "ListComp is not allowed"),
        ("lambda i: (i, *i)", "Starred is not allowed"),
        ("lambda i: i[0]", "Subscript is not allowed"),
        ("lambda i: (lambda: i)", "Lambda is not allowed"),
        ("lambda i: (i := 4)", "NamedExpr is not allowed"),
        ("lambda i: f'{i}'", "JoinedStr is not allowed"),
        ("lambda i: i if i else 0", "IfExp is not allowed"),
        ("lambda i: -i", "UnaryOp is not allowed"),
        ("lambda i: 'text'", "Constant is not allowed"),
        ("lambda i: True", "Constant is not allowed"),
        ("lambda i: 9999999999", "Constant is not allowed"),
        ("lambda i: i + j", "'j' is no argument; arguments: i"),
        ("lambda i: i ** 99", "operator Pow is not among"),
        ("lambda i: i << 99", "operator LShift is not among"),
        ("lambda i: i / 2", "operator Div is not among"),
        ("lambda i: i // 0", "// and % take a positive integer"),
        ("lambda i: i % i", "// and % take a positive integer"),
        ("lambda i: 1048576 * 1048576", "work out what has no index in it"),
        ("lambda i=open('/x'): i", "plain arguments"),
        ("lambda *i: i", "plain arguments"),
        ("lambda i: ()", "0 dimensions, expected 1 to 8"),
        ("lambda i: (i, i, i, i, i, i, i, i, i)", "9 dimensions, expected 1 to 8"),
        ("lambda i, j: i", "2 arguments for a buffer of 1 dimensions"),
        ("i", "expected lambda"),
        ("", "not of the form"),
        ("import os", "not of the form"),
        ("(" * 200, "not of the form"),
        ("lambda i: \0", "not of the form"),
    ],
)
def test_refused(text: str, reason: str) -> None:
    with pytest.raises(StepError) as error:
        index_map(text, (16,))
    assert reason in error.value.reason


def test_a_map_for_another_shape_takes_the_divisors_nearest_to_its_own() -> None:
    text = "lambda k, j: (j // 16, k, j % 16)"
    assert fitted_map(text, (516, 332)) == "lambda k, j: (j // 4, k, j % 4)"
    assert fitted_map(text, (516, 320)) == text
    assert fitted_map(text, (516, -1)) == text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("lambda i, j: (i, j % 3)", "it sends two indices to one place"),
        ("lambda i, j: (i, i)", "it sends two indices to one place"),
        ("lambda i, j: (i + 1, j)", "i + 1 starts at 1; dimensions start at 0"),
        ("lambda i, j: (i - 1, j)", "i - 1 starts at -1; dimensions start at 0"),
        ("lambda i, j: (i, j * 2)", "the map leaves 7 of 15 places empty"),
        ("lambda i, j: (i, j // 3, j % 3)", "the map leaves 1 of 9 places empty"),
        ("lambda i, j: (i * 1048576 * 1048576 * 1048576, j)", "at most 4194304 are checked"),
    ],
)
def test_a_map_that_is_not_one_to_one_is_refused(text: str, reason: str) -> None:
    with pytest.raises(StepError) as error:
        index_map(text, (512, 8))
    assert reason in error.value.reason


def test_a_tail_is_legal_where_it_is_filled() -> None:
    assert index_map("lambda i, j: (j // 3, i, j % 3)", (512, 8), may_pad=True)(4, 7) == [2, 4, 1]


def test_a_dimension_of_unknown_size_moves_as_a_whole() -> None:
    assert index_map("lambda i, j: (j, i)", (-1, 8))(4, 7) == [7, 4]
    with pytest.raises(StepError, match="only whole dimensions move"):
        index_map("lambda i, j: (i // 4, i % 4, j)", (-1, 8))


def test_a_large_buffer_is_checked_by_the_dimensions_that_mix() -> None:
    assert index_map("lambda i, j: (j // 16, i, j % 16)", (1 << 20, 4096))(3, 17) == [1, 3, 1]
    with pytest.raises(StepError, match="it mixes 4294967296 indices"):
        index_map("lambda i, j: i * 4096 + j", (1 << 20, 4096))
