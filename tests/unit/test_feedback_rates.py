# SPDX-License-Identifier: Apache-2.0
"""The least work of a function, and the bound that follows from a machine's rates."""

from __future__ import annotations

import pytest

from kope_tvm.feedback.rates import Rates, Work, least_work
from kope_tvm.feedback.roof import Roof
from kope_tvm.task import Features

MATMUL = Features("matmul", (100, 200), (50,), ("float32",) * 3, 3e6, 140e3, 1)
ROOF = Roof(
    "m",
    "t",
    one_core=Rates({"float32": 1e9, "int8": 4e9}, ((0, 1e9),)),
    all_cores=Rates({"float32": 2e9, "int8": 8e9}, ((0, 1e10), (1000, 1e9), (10**6, 1e8))),
    launch_secs=1e-5,
)


def test_a_contraction_does_its_products_and_moves_its_parameters() -> None:
    assert least_work(MATMUL) == Work(2e6, "float32", 140e3)


def test_operations_of_other_functions_can_be_saved() -> None:
    softmax = Features("softmax", (4,), (8,), ("float32", "float32"), 1e9, 256.0, 4)
    assert least_work(softmax) == Work(0.0, "float32", 256.0)


def test_a_slice_moves_only_what_it_takes() -> None:
    sliced = Features("elementwise", (10,), (), ("float32", "float32"), 0.0, 4e6, 1)
    assert least_work(sliced).num_bytes == 80.0


def test_indices_of_a_gather_are_not_read_at_every_step() -> None:
    gathered = Features("elementwise", (4, 5), (), ("float32", "int64", "float32"), 0.0, 4e6, 1)
    assert least_work(gathered).num_bytes == 2 * 20 * 4


def test_a_symbolic_extent_bounds_nothing() -> None:
    symbolic = Features("matmul", (-1, 16), (8,), ("float32",) * 3, 128.0, 512.0, 1)
    assert least_work(symbolic) == Work(0.0, "float32", 0.0)
    assert ROOF.secs(symbolic) == 0.0


@pytest.mark.parametrize(
    ("dtypes", "dtype"),
    [
        (("float32", "float32", "float32"), "float32"),
        (("int8", "int8", "int32"), "int8"),
        (("float32", "uint8", "float32", "float32"), "float32"),
        (("int8", "int8", "float32", "int8"), "int8"),
        (("uint8", "float32", "float32"), "float32"),
        (("float16",), "float16"),
        ((), "float32"),
    ],
)
def test_a_product_is_done_in_its_wider_operand(dtypes: tuple[str, ...], dtype: str) -> None:
    assert least_work(Features("matmul", (4,), (4,), dtypes)).dtype == dtype


@pytest.mark.parametrize(
    ("work", "secs"),
    [
        (Work(2e9, "float32", 0.0), 1.0),
        (Work(8e9, "int8", 0.0), 1.0),
        (Work(1e9, "float64", 0.0), 1.0),
        (Work(4e9, "float16", 0.0), 1.0),
        (Work(0.0, "float32", 500.0), 5e-8),
        (Work(0.0, "float32", 5000.0), 5e-6),
        (Work(0.0, "float32", 1e8), 1.0),
        (Work(2e9, "float32", 1e6), 1.0),
        (Work(2e6, "float32", 1e6), 0.01),
    ],
)
def test_the_slower_of_computing_and_moving_counts(work: Work, secs: float) -> None:
    assert ROOF.all_cores.secs(work) == pytest.approx(secs)


def test_nothing_is_bound_by_unknown_rates() -> None:
    assert Roof("m", "t").secs(MATMUL) == 0.0
    assert Roof("m", "t").headroom(MATMUL, 1.0) == 0.0


def test_small_functions_stay_on_one_core_and_large_ones_wake_the_others() -> None:
    small = Features("matmul", (10, 10), (25,), ("float32",) * 3, 5e3, 800.0, 1)
    assert ROOF.secs(small) == pytest.approx(5e-6)
    assert ROOF.secs(MATMUL) == pytest.approx(1e-3 + 1e-5)
    assert ROOF.headroom(MATMUL, 2.02e-3) == pytest.approx(2.0)


def test_one_core_is_no_faster_than_all() -> None:
    large = Features("elementwise", (10**6,), (), ("float32",) * 2, 0.0, 8e6, 1)
    assert ROOF.secs(large) == pytest.approx(0.08)


@pytest.mark.parametrize("secs", [5e-4, 1e-6])
def test_a_faster_function_raises_the_roof_to_its_time(secs: float) -> None:
    raised = ROOF.raised(MATMUL, secs)
    assert raised.secs(MATMUL) == pytest.approx(secs)
    eight_bits = Features("matmul", (100, 200), (50,), ("int8",) * 3, 2e6, 140.0, 1)
    assert raised.all_cores.flops_per_sec["int8"] == 8e9
    assert raised.secs(eight_bits) <= ROOF.secs(eight_bits)


def test_a_slower_function_leaves_the_roof_alone() -> None:
    assert ROOF.raised(MATMUL, 2e-3) is ROOF


def test_of_two_sights_of_a_machine_the_higher_holds() -> None:
    busy = Roof(
        "m",
        "t",
        one_core=Rates({"float32": 5e8}, ((0, 2e9),)),
        all_cores=Rates({"float32": 4e9}, ((0, 1e9), (10**6, 5e8))),
        launch_secs=5e-6,
        is_settled=False,
    )
    both = busy.or_higher(ROOF)
    assert both.one_core == Rates({"float32": 1e9, "int8": 4e9}, ((0, 2e9),))
    assert both.all_cores == Rates(
        {"float32": 4e9, "int8": 16e9}, ((0, 1e10), (1000, 1e9), (10**6, 5e8))
    )
    assert (both.launch_secs, both.is_settled) == (5e-6, False)
    assert both.secs(MATMUL) <= min(busy.secs(MATMUL), ROOF.secs(MATMUL))
