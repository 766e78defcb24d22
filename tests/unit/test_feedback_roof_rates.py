# SPDX-License-Identifier: Apache-2.0
"""What a roof makes of rates that a busy machine left unknown."""

from __future__ import annotations

import pytest

from kope_tvm.feedback.roof_rates import _falling, _Kernel, _own_bandwidths, _shared_bandwidths
from kope_tvm.target import Facts, TargetSpec

KIB = 1 << 10
MACHINE = TargetSpec(
    "two", {"kind": "llvm"}, Facts(num_cores=2, l1_bytes=32 * KIB, l2_bytes=512 * KIB, l3_bytes=0)
)
RATES = {"l1 triads": 4e9, "l2 reads": 2e9, "l3 reads": 3e9, "l3 triads": 2.5e9}


@pytest.mark.parametrize(
    ("rates", "settled"),
    [
        ([1.0, 1.0], False),
        ([1.0, 1.01, 0.2], True),
        ([1.0, 1.1, 0.2], False),
        ([1.0, 0.5, 0.99], True),
        ([0.0, 0.0, 0.0], True),
        ([0.0, 1.0, 0.0], False),
    ],
)
def test_two_best_passes_of_three_settle_a_rate(rates: list[float], settled: bool) -> None:
    assert _Kernel("k", None, 1.0).is_settled(rates) is settled


def test_a_core_has_the_caches_of_its_own() -> None:
    own = _own_bandwidths(MACHINE, RATES)
    assert [least for least, _ in own] == [0, 64 * KIB]
    assert [rate for _, rate in own] == pytest.approx([1.05 * 4e9, 1.05 * 2e9])


def test_all_cores_are_no_faster_than_so_many_ones() -> None:
    shared = _shared_bandwidths(MACHINE, RATES)
    assert [least for least, _ in shared] == [0, 128 * KIB, 2048 * KIB]
    assert [rate for _, rate in shared] == pytest.approx([1.05 * 8e9, 1.05 * 4e9, 1.05 * 3e9])


def test_an_unknown_rate_is_bound_by_the_next_smaller_footprint() -> None:
    rates = {name: rate for name, rate in RATES.items() if name != "l3 triads"}
    assert len(_shared_bandwidths(MACHINE, rates)) == 2
    assert _falling([(1, 0.0), (2, 5.0), (3, 0.0), (4, 1.0)]) == ((2, 5.0), (4, 1.0))


def test_a_larger_footprint_that_was_faster_raises_the_smaller_ones() -> None:
    assert _falling([(1, 2.0), (2, 1.0), (3, 4.0)]) == ((0, 4.0), (2, 4.0), (3, 4.0))


def test_a_rate_that_falls_too_far_is_not_believed() -> None:
    assert _falling([(1, 32.0), (2, 1.9), (3, 2.0)]) == ((0, 32.0), (3, 2.0))
