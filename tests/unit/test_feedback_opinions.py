# SPDX-License-Identifier: Apache-2.0
"""When a winner is noted as one that two models disagree on."""

from __future__ import annotations

import pytest

from kope_tvm.errors import KopeError
from kope_tvm.feedback.opinions import Opinion, dissent, second_opinion

WINNER = Opinion("rule:matmul_rvv", 1000.0, 900.0)


def test_a_strong_reversal_is_said_with_both_numbers() -> None:
    others = [Opinion("sketch", 1200.0, 450.0), Opinion("plan", 1100.0, 800.0)]
    assert dissent(WINNER, others) == (
        "opinions disagree: by llvm-mca the winner, rule:matmul_rvv, takes 2.00x as long as "
        "sketch, which the simulated machine has 1.20x slower; measure both on a board"
    )


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(Opinion("sketch", 1200.0, 600.0), id="reversed by 1.5x and no more"),
        pytest.param(Opinion("sketch", 1200.0, 1300.0), id="the same order"),
        pytest.param(Opinion("sketch", 900.0, 100.0), id="both prefer the other on one core"),
    ],
)
def test_less_is_not_said(other: Opinion) -> None:
    assert dissent(WINNER, [other]) == ""


def test_where_nobody_can_be_asked_that_is_said() -> None:
    def fails() -> Opinion:
        raise KopeError("llvm-mca 22 is not installed")

    assert second_opinion([fails, fails]) == "no second opinion: llvm-mca 22 is not installed"
    assert second_opinion([fails]) == ""
