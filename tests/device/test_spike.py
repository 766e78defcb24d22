# SPDX-License-Identifier: Apache-2.0
"""Right at every vector length, or refused: on Spike, which runs what TVM compiled."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
from riscv_objects import MATMUL, program

from kope_tvm.device.spike.emulator import spike
from kope_tvm.device.spike.right import (
    VLENS,
    AtLength,
    Word,
    is_right_where_it_should_be,
    required_vlen,
    right_at,
)
from kope_tvm.errors import KopeError

try:
    spike()
except KopeError as missing:
    pytest.skip(str(missing), allow_module_level=True)


def _words(found: tuple[AtLength, ...]) -> tuple[str, ...]:
    return tuple(each.word.value for each in found)


@pytest.mark.parametrize(
    ("operator", "rule"),
    [
        (MATMUL, "matmul_rvv"),
        ("op:softmax:m=14,n=185,dtype=float32", "softmax_rvv"),
        ("op:matmul_int8:m=24,n=40,k=36,dtype=int8", "matmul_rvv"),
    ],
)
def test_k1_is_right_from_256_up_and_refused_at_128(operator: str, rule: str) -> None:
    made, wanted = program("spacemit-k1", operator, rule)
    found = right_at(made, [wanted])
    assert _words(found) == ("refused", "right", "right", "right")
    assert found[0].reason == "built for vectors of 256 bits or more; this core has 128"
    assert is_right_where_it_should_be(found)


def test_generic_rv64gcv_is_right_at_all_four() -> None:
    made, wanted = program("generic-rv64gcv", MATMUL, "matmul_rvv")
    found = right_at(made, [wanted])
    assert [each.vlen_bits for each in found] == list(VLENS)
    assert _words(found) == ("right",) * 4


def test_an_object_that_hides_its_length_is_found_wrong_by_its_numbers() -> None:
    """Exit code 0 and half of each row missing: what the attribute is for."""
    made, wanted = program("spacemit-k1", MATMUL, "matmul_rvv")
    hidden = made.object_bytes.replace(b"zvl256b1p0", b"zvl128b1p0")
    (found,) = right_at(replace(made, object_bytes=hidden), [wanted], (128,))
    assert required_vlen(hidden) == 128
    assert found.word is Word.WRONG
    assert found.reason.startswith("wrong ")
    assert not is_right_where_it_should_be((found,))


def test_an_unwritten_output_is_told_apart() -> None:
    made, wanted = program("generic-rv64gcv", MATMUL, "matmul_rvv")
    still = replace(made, num_timed=0, num_warm=0)
    (found,) = right_at(still, [wanted], (128,))
    assert found.reason.endswith("; never written")


def test_a_tolerance_is_held() -> None:
    made, wanted = program("generic-rv64gcv", MATMUL, "matmul_rvv")
    off = np.array(wanted)
    off[3, 5] *= 1.1
    (found,) = right_at(made, [off], (256,))
    assert (found.word, found.reason) == (
        Word.WRONG,
        "wrong 0.00024 of [64, 64]: axis 0 only 3..3, axis 1 only 5..5; "
        "there 0.909 times the right value",
    )


def test_a_length_takes_a_fraction_of_a_second() -> None:
    made, wanted = program("generic-rv64gcv", MATMUL, "matmul_rvv")
    started = time.perf_counter()
    right_at(made, [wanted])
    assert time.perf_counter() - started < 5
