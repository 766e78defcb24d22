# SPDX-License-Identifier: Apache-2.0
"""Each static pass: what it finds in a function written for it, worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest
import static_functions as given

from kope_tvm import static_checks
from kope_tvm.static_checks import (
    Amounts,
    Coverage,
    InputBranch,
    LoopNode,
    OutOfBounds,
    Race,
    UndeclaredUse,
    UninitialisedRead,
)


@pytest.mark.parametrize(
    ("func", "expected"),
    [
        (given.half_written, Coverage(1, "no", ((64, 80), (0, 4)))),
        (given.every_other, Coverage(1, "no", ((15, 16),))),
        (given.two_halves, Coverage(1, "yes")),
        (given.scattered, Coverage(1, "unknown")),
        (given.fused_with_tail, Coverage(1, "unknown")),
        (given.padded, Coverage(1, "yes")),
    ],
)
def test_write_coverage(func: Any, expected: Coverage) -> None:
    assert static_checks.write_coverage(func, [1]) == (expected,)


@pytest.mark.parametrize(
    ("func", "expected"),
    [
        (given.never_started, (UninitialisedRead("C", 1, (0,)),)),
        (given.init_skipped, (UninitialisedRead("C", 1, (0,)),)),
        (given.temporary_tail, (UninitialisedRead("temp", -1, (15,)),)),
        (given.started_by_condition, ()),
        (given.own_temporary, ()),
    ],
)
def test_uninitialised_reads(func: Any, expected: tuple[UninitialisedRead, ...]) -> None:
    assert static_checks.uninitialised_reads(func) == expected


def test_out_of_bounds() -> None:
    assert static_checks.out_of_bounds(given.beyond) == (OutOfBounds("A", 0, 16, 16),)
    assert static_checks.out_of_bounds(given.padded) == ()


def test_written_params() -> None:
    assert static_checks.written_params(given.input_zeroed) == (0, 1)
    assert static_checks.written_params(given.half_written) == (1,)
    # memcpy was given the address of A
    assert static_checks.written_params(given.foreign) == (0, 1)


def test_races() -> None:
    assert static_checks.races(given.raced) == (Race("C", "k"),)
    assert static_checks.races(given.own_temporary) == ()


def test_calls() -> None:
    assert static_checks.calls(given.foreign) == {
        "tirx.exp",
        "tirx.address_of",
        "tirx.buffer_data",
        "tirx.call_extern:expf",
        "tirx.call_extern:memcpy",
    }
    assert static_checks.calls(given.half_written) == frozenset()


def test_addresses() -> None:
    expected = {"tirx.address_of", "tirx.buffer_data", "tirx.call_extern"}
    assert static_checks.addresses(given.foreign) == expected
    assert static_checks.addresses(given.narrowed) == frozenset()


def test_dtypes() -> None:
    assert static_checks.dtypes(given.narrowed) == {
        "accumulate float16",
        "compute float16",
        "cast float32 float16",
        "cast float16 float32",
    }


def test_literals() -> None:
    assert static_checks.literals(given.branched) == 2  # 0.0 and 1.0
    assert static_checks.literals(given.every_other) == 0  # the 2 is part of an index


def test_input_branches() -> None:
    """`seen` holds what was in A; B is only chosen from."""
    assert static_checks.input_branches(given.branched) == {InputBranch("tirx.IfThenElse", 0)}
    assert static_checks.input_branches(given.padded) == frozenset()


def test_annotations() -> None:
    assert static_checks.annotation_keys(given.hidden) == {"double_buffer_scope", "pragma_import_c"}
    assert static_checks.annotation_keys(given.raced) == frozenset()


def test_undeclared_uses() -> None:
    assert static_checks.undeclared_uses(given.hidden) == (UndeclaredUse("C", "A"),)
    assert static_checks.undeclared_uses(given.raced) == ()


def test_temporary_bytes() -> None:
    assert static_checks.temporary_bytes(given.temporary_tail) == 16 * 4
    assert static_checks.temporary_bytes(given.raced) == 0


def test_amounts() -> None:
    # 32 sums of two float32 loads; as many stores, and four of the start
    assert static_checks.amounts(given.raced) == Amounts(32.0, 256.0, 144.0)


def test_loop_tree() -> None:
    assert static_checks.loop_tree(given.raced) == (
        LoopNode(0, "block", "root", -1),
        LoopNode(1, "serial", "i", 4),
        LoopNode(2, "block", "init", -1),
        LoopNode(1, "parallel", "k", 8),
        LoopNode(2, "serial", "i", 4),
        LoopNode(3, "block", "C", -1),
    )
