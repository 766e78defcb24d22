# SPDX-License-Identifier: Apache-2.0
"""Numbers as a prompt writes them, and what proposals have in common whatever they are called."""

from __future__ import annotations

import pytest

from kope_tvm.prompt.amounts import shown_bytes, shown_count, shown_secs, three_digits
from kope_tvm.prompt.mechanism import mechanism_of
from kope_tvm.proposal import Decisions, Plan, Rewrite, Step


@pytest.mark.parametrize(
    ("secs", "shown"),
    [(1.5, "1.5 s"), (0.00021349, "213 us"), (9.996e-6, "10 us"), (4e-8, "40 ns"), (0.0, "0 ns")],
)
def test_times(secs: float, shown: str) -> None:
    assert shown_secs(secs) == shown


def test_sizes_and_counts() -> None:
    assert [shown_bytes(n) for n in (12, 32768, 1 << 21)] == ["12 B", "32 KiB", "2 MiB"]
    assert [shown_count(n) for n in (12, 126198, 2.6e11)] == ["12", "126 k", "260 G"]
    assert [three_digits(n) for n in (0, 12345, 0.0312, 1.0)] == ["0", "12300", "0.0312", "1"]


def step(primitive: str, block: str) -> Step:
    return Step(primitive, {"block": block})


def test_the_same_idea_has_one_mechanism_in_any_order_and_with_any_numbers() -> None:
    one = Plan((step("split", "C"), step("vectorize", "C"), step("unroll", "C")))
    other = Plan((step("unroll", "C"), step("reorder", "D"), step("vectorize", "C")))
    assert mechanism_of(one) == mechanism_of(other) == "plan: unroll C, vectorize C"


def test_mechanisms_of_the_other_lanes() -> None:
    assert mechanism_of(Decisions("rule:x", "[]")) == "rule:x"
    assert mechanism_of(Rewrite("s", Plan((step("split", "C"),)))) == "rewrite, plan: split C"
    assert mechanism_of(Rewrite("s")) == "rewrite"
