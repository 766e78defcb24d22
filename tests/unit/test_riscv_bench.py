# SPDX-License-Identifier: Apache-2.0
"""What the suite `riscv` says of cycles that it was given."""

from __future__ import annotations

import pytest

from kope_tvm.bench.riscv_result import AUTOVEC, KOPE, SCALAR, STOCK, Entry, Operator, RiscvBench


def _entry(cycles: int, *, wrong: str = "", word: str = "right") -> Entry:
    return Entry(cycles, wrong, {256: "right", 512: word}, "", tune_secs=1.5)


def _operator(spec: str, **cycles: int) -> Operator:
    names = {"scalar": SCALAR, "autovec": AUTOVEC, "rvv": STOCK[0], "stock": STOCK[1], "kope": KOPE}
    return Operator(spec, {names[name]: _entry(count) for name, count in cycles.items()})


RELU = _operator("op:relu:m=4", scalar=800, autovec=120, rvv=400, stock=300, kope=100)
LOG = _operator("op:log:m=4", scalar=900, autovec=900, rvv=0, stock=800, kope=100)
BENCH = RiscvBench("spacemit-k1", 32, {}, (RELU, LOG))


def test_a_search_that_lost_to_the_untuned_function_counts_as_that() -> None:
    assert RELU.speed(STOCK[1]) == 3
    assert RELU.over_stock == 1.2


def test_a_search_that_found_nothing_keeps_the_untuned_function() -> None:
    assert LOG.speed(STOCK[0]) == 9


def test_operators_that_kope_has_vector_code_for_can_be_left_out() -> None:
    assert BENCH.geomean(lambda one: one.over_stock) == pytest.approx((1.2 * 8) ** 0.5)
    assert BENCH.geomean(lambda one: one.over_stock, with_dear=False) == pytest.approx(1.2)
    assert BENCH.as_json()["geomean"][SCALAR] == pytest.approx(72**0.5)
    assert BENCH.search_secs == 15


@pytest.mark.parametrize(
    ("entry", "right"),
    [
        (_entry(5), True),
        (_entry(0), False),
        (_entry(5, wrong="3 of 8"), False),
        (_entry(5, word="refused"), True),
        (_entry(5, word="wrong"), False),
    ],
)
def test_right_is_right_at_every_length(entry: Entry, right: bool) -> None:
    assert entry.is_right == right
