# SPDX-License-Identifier: Apache-2.0
"""What time is believed, and from where on a candidate is faster."""

from __future__ import annotations

import pytest

from kope_tvm.outcome import Measurement
from kope_tvm.performance import compared, in_doubt, least_secs, needed_gain, noise


def _right(*run_secs: float) -> Measurement:
    return Measurement(run_secs, is_proven=True)


def test_three_percent_is_the_least_gain() -> None:
    assert not compared(_right(1.0, 1.0), _right(1.029, 1.029)).accepted
    assert compared(_right(1.0, 1.0), _right(1.031, 1.031)).accepted


def test_a_noisy_machine_asks_for_twice_its_noise() -> None:
    noisy = _right(0.9, 1.1, 0.9, 1.1)
    assert noise(noisy.run_secs) == pytest.approx(0.1)
    assert needed_gain(noisy.run_secs) == pytest.approx(1.2)
    assert not compared(noisy, _right(1.15)).faster
    assert compared(noisy, _right(1.25)).faster


def test_one_interrupted_repeat_is_no_noise() -> None:
    assert noise((1.0, 1.0, 1.0, 9.0)) == 0.0
    assert noise((1.0,)) == 0.0


def test_correct_suspicious_and_faster_are_apart() -> None:
    unproved = compared(Measurement((1.0,)), _right(2.0))
    assert (unproved.correct, unproved.suspicious, unproved.faster) == (False, False, True)
    assert not unproved.accepted
    caught = compared(Measurement(code="E_IMPOSSIBLE", error="too fast"), _right(2.0))
    assert (caught.correct, caught.suspicious, caught.faster) == (False, True, False)


@pytest.mark.parametrize("secs", [0.0, -1.0, float("nan"), float("inf")])
def test_a_time_that_is_none_is_refused(secs: float) -> None:
    found = in_doubt(Measurement((1.0, secs, 1.0), is_proven=True), 0.0)
    assert (found.ok, found.code, found.is_proven) == (False, "E_IMPOSSIBLE", False)


def test_below_the_roof_is_impossible_and_not_fast() -> None:
    assert in_doubt(_right(0.96), 1.0).ok
    found = in_doubt(_right(0.94), 1.0)
    assert found.code == "E_IMPOSSIBLE"
    assert found.error == "0.94 s, this machine needs 1 s or more"
    assert found.suspicious


def test_an_algorithm_with_fewer_products_is_believed() -> None:
    assert least_secs(4.0, "conv2d") == 1.0
    assert least_secs(4.0, "softmax") == 4.0
    assert least_secs(0.0, "softmax") == 0.0
