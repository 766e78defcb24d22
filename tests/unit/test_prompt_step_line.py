# SPDX-License-Identifier: Apache-2.0
"""Steps as lines say the same as their JSON."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kope_tvm.plan.steps import read_steps
from kope_tvm.prompt.step_line import line_of, step_of

CASES: dict[str, dict[str, Any]] = {
    "split C i [-1,8] -> io ii": {
        "do": "split", "block": "C", "loop": "i", "factors": [-1, 8], "into": ["io", "ii"],
    },
    "fuse C io jo -> t": {"do": "fuse", "block": "C", "loops": ["io", "jo"], "into": "t"},
    "reorder C i k j": {"do": "reorder", "block": "C", "loops": ["i", "k", "j"]},
    "vectorize C j": {"do": "vectorize", "block": "C", "loop": "j"},
    "cache_read C B global -> Bg": {
        "do": "cache_read", "block": "C", "buffer": "B", "scope": "global", "into": "Bg",
    },
    "compute_at Bg at io of C": {"do": "compute_at", "block": "Bg", "at": "io", "of": "C"},
    "rfactor C k 1 -> part": {
        "do": "rfactor", "block": "C", "loop": "k", "axis": 1, "into": "part",
    },
    "pad_einsum C [1,16,1]": {"do": "pad_einsum", "block": "C", "padding": [1, 16, 1]},
    "transform_layout Bg B_global lambda k, j: (j // 16, k, j % 16)": {
        "do": "transform_layout", "block": "Bg", "buffer": "B_global",
        "map": "lambda k, j: (j // 16, k, j % 16)",
    },
}  # fmt: skip


@pytest.mark.parametrize("line", CASES)
def test_a_line_is_its_json_and_back(line: str) -> None:
    assert step_of(line) == CASES[line]
    steps = read_steps([step_of(line)])
    assert isinstance(steps, tuple)
    assert line_of(steps[0].primitive, steps[0].args) == line


@pytest.mark.parametrize(
    ("line", "same"),
    [
        ("reorder C i, k, j", "reorder C i k j"),
        ("vectorize C.j", "vectorize C j"),
        ("split C i [-1, 8] -> io, ii", "split C i [-1,8] -> io ii"),
        ("compute_at Bg io C", "compute_at Bg at io of C"),
        ("cache_read C B -> Bg scope=global", "cache_read C B -> Bg"),
        ("split C loop=i factors=[-1,8]", "split C i [-1,8]"),
    ],
)
def test_other_spellings(line: str, same: str) -> None:
    assert read_steps([step_of(line)]) == read_steps([step_of(same)])


@pytest.mark.parametrize("line", ["", "frobnicate C", "split C", "vectorize C i j k"])
def test_what_is_no_step_is_refused_by_the_plans_own_reader(line: str) -> None:
    assert not isinstance(read_steps([step_of(line)]), tuple)


def test_an_endless_line_is_not_looked_at() -> None:
    with pytest.raises(ValueError, match="at most 400"):
        step_of("split C i " * 50)


@given(st.text(max_size=200))
def test_any_text_is_a_step_or_a_refusal(line: str) -> None:
    read_steps([step_of(line)])
