# SPDX-License-Identifier: Apache-2.0
"""The C++ passes answer what their Python references do, on what rules make of every operator."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest
import static_functions
import static_reference
from executed import Execution, Memory
from rule_checks import AVX512
from tvm import tirx

from kope_tvm import _ffi_api, static_checks
from kope_tvm.operators import known_operators
from kope_tvm.outcome import Verdict
from kope_tvm.proposal import Decisions
from kope_tvm.workbench import Workbench, make_task

SIZES = {
    **{"n": 32, "m": 5, "k": 32, "b": 2, "d": 4},
    **{"ci": 4, "co": 8, "h": 6, "w": 6, "groups": 2},
    **{"s": 5, "t": 3, "g": 2, "r": 2, "v": 16},
}
OF_TEXT = (
    *("calls", "dtypes", "literals", "addresses", "annotation_keys", "undeclared_uses"),
    *("temporary_bytes", "input_branches", "amounts", "loop_tree"),
)
LEAST_SPEEDUP = 20
NUM_STATEMENTS = 2000


@cache
def scheduled(operator: str) -> tuple[tirx.PrimFunc, ...]:
    """The untuned function and what each rule makes of it."""
    found = known_operators()[operator]
    sizes = {name: size for name, size in SIZES.items() if name in found.sizes}
    if "conv" in operator:
        sizes["n"] = 1
    # No guard: behind one an index of fused loops is unknown.
    if operator.startswith("heat") or operator == "group_norm":
        sizes.update(h=8, w=8)
    bench = Workbench(make_task(operator, found.tir(**sizes), AVX512))
    funcs = [bench.mod["main"]]
    for space in bench.rule_spaces:
        candidate = bench.apply(Decisions("rule", space.trace))
        assert not isinstance(candidate, Verdict), space.name
        funcs.append(candidate.sch.mod["main"])
    return tuple(funcs)


@cache
def hand_written() -> dict[str, tirx.PrimFunc]:
    found = vars(static_functions)
    return {name: one for name, one in found.items() if isinstance(one, tirx.PrimFunc)}


def assert_same_accesses(func: tirx.PrimFunc) -> None:
    ran, outputs = Execution(func), static_checks.written_params(func)
    for found in static_checks.write_coverage(func, outputs):
        assert found.written in (ran.param(found.param).coverage, "unknown")
    assert {one.buffer for one in static_checks.uninitialised_reads(func)} == names(
        ran, lambda memory: memory.uninitialised and memory.param in (-1, *outputs)
    )
    assert {one.buffer for one in static_checks.out_of_bounds(func)} == names(
        ran, lambda memory: memory.outside
    )
    assert {one.buffer for one in static_checks.races(func)} == names(
        ran, lambda memory: memory.races
    )


def names(ran: Execution, which: Callable[[Memory], Any]) -> set[str]:
    return {memory.name for memory in ran.memories.values() if which(memory)}


@pytest.mark.parametrize("operator", known_operators())
def test_same_answers_on_what_rules_make(operator: str) -> None:
    for func in scheduled(operator):
        assert_same_accesses(func)
        (output,) = static_checks.written_params(func)
        (coverage,) = static_checks.write_coverage(func, [output])
        assert coverage.written == "yes"
        for check in OF_TEXT:
            expected = getattr(static_reference, check)(func)
            assert getattr(static_checks, check)(func) == expected, check


@pytest.mark.parametrize("name", hand_written())
def test_same_answers_on_what_is_written_by_hand(name: str) -> None:
    func = hand_written()[name]
    if name != "foreign":  # what memcpy does is not run
        assert_same_accesses(func)
    for check in OF_TEXT:
        expected = getattr(static_reference, check)(func)
        assert getattr(static_checks, check)(func) == expected, check


@cache
def long_function() -> tirx.PrimFunc:
    """Loops over 2 000 statements, each with a multiplication, a sum and a choice."""
    given, result = (tirx.decl_buffer((NUM_STATEMENTS, 8), name=name) for name in "ac")
    body = tirx.SeqStmt([statement(given, result, row) for row in range(NUM_STATEMENTS)])
    return tirx.PrimFunc([given, result], body)


def statement(given: Any, result: Any, row: int) -> Any:
    column = tirx.Var(f"i{row}", "int32")
    loaded = given[row, column]
    value = tirx.Select(loaded > 0, loaded * tirx.const(2.0, "float32") + loaded, loaded)
    store = tirx.BufferStore(result, value, [row, column])
    return tirx.For(column, 0, 8, tirx.ForKind.SERIAL, store)


def passes() -> Iterator[tuple[str, Callable[[Any], Any], Callable[[Any], Any]]]:
    for check in OF_TEXT[:-1]:
        yield check, getattr(static_checks, check), getattr(static_reference, check)
    # Most of static_checks.loop_tree is Python: the pass itself is timed.
    yield "loop_tree", _ffi_api.function("loop_tree"), static_reference.loop_tree
    yield "write_coverage", lambda func: static_checks.write_coverage(func, [1]), Execution
    for check in ("uninitialised_reads", "out_of_bounds", "written_params", "races"):
        yield check, getattr(static_checks, check), Execution


@pytest.mark.parametrize(("name", "check", "reference"), list(passes()))
def test_twenty_times_as_fast_on_two_thousand_statements(
    name: str, check: Callable[[Any], Any], reference: Callable[[Any], Any]
) -> None:
    func = long_function()
    check(func)
    fast = min(secs_of(check, func) for _ in range(5))
    slow = secs_of(reference, func)
    assert slow >= LEAST_SPEEDUP * fast, f"{name}: {slow * 1e3:.1f} ms, {fast * 1e3:.1f} ms"


def secs_of(check: Callable[[Any], Any], func: Any) -> float:
    start = time.perf_counter()
    check(func)
    return time.perf_counter() - start
