# SPDX-License-Identifier: Apache-2.0
"""What a mismatch map says of faults that a schedule makes."""

from __future__ import annotations

import numpy as np
import pytest

from kope_tvm.measure.mismatch import mismatch_map
from kope_tvm.measure.policy import Allowed

RIGHT = np.arange(1, 81 * 41 + 1, dtype=np.float32).reshape(81, 41)
POISON = np.array(np.nan, np.float32)
ALLOWED = Allowed(rtol=1e-3, scale=1.0)


def test_a_tail_that_was_never_written() -> None:
    got = RIGHT.copy()
    got[64:] = np.nan
    assert mismatch_map(got, RIGHT, POISON, ALLOWED) == (
        "wrong 0.21 of [81, 41]: axis 0 only 64..80, axis 1 all; never written"
    )


def test_every_second_column_is_zero() -> None:
    got = RIGHT.copy()
    got[:, 1::2] = 0
    assert mismatch_map(got, RIGHT, POISON, ALLOWED) == (
        "wrong 0.49 of [81, 41]: axis 0 all, axis 1 where i % 2 in [1]; all zeros there"
    )


def test_a_sum_taken_twice() -> None:
    assert mismatch_map(RIGHT * 2, RIGHT, POISON, ALLOWED) == (
        "wrong 1 of [81, 41]: axis 0 all, axis 1 all; there 2 times the right value"
    )


def test_some_indices_without_a_pattern() -> None:
    got = RIGHT.copy()
    got[[3, 10, 29], 7] = -1
    assert mismatch_map(got, RIGHT, POISON, ALLOWED) == (
        "wrong 0.0009 of [81, 41]: axis 0 3 indices in 3..29, axis 1 only 7..7"
    )


@pytest.mark.parametrize("dtype", [np.int32, np.float16])
def test_one_number(dtype: type) -> None:
    assert mismatch_map(np.array(3, dtype), np.array(4, dtype), np.array(0, dtype), Allowed()) == (
        "wrong 1 of []: the only element; there 0.75 times the right value"
    )


def test_nothing_is_wrong() -> None:
    assert mismatch_map(RIGHT, RIGHT, POISON, ALLOWED) == ""
