# SPDX-License-Identifier: Apache-2.0
"""What MetaSchedule draws at random is right by construction: no gate refuses any."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from door import HOST

from kope_tvm.bench.gates import new_bench, run_gates
from kope_tvm.bench.gates_result import GatesBench

MATMUL, SUM, SMALL = "op:matmul:m=64,n=48,k=32", "op:reduce_sum:m=64,n=48", "op:gelu:m=8,n=30"


@pytest.fixture(scope="module", autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KOPE_HOME", str(tmp_path_factory.mktemp("home")))
        yield


def run(candidates: int, *operators: str, known: GatesBench | None = None) -> GatesBench:
    """Two of each operator as an ordinary run measures them."""
    bench = known or new_bench(candidates, 3, 2, HOST)
    return run_gates(operators, replace(bench, candidates=candidates), HOST)


@pytest.fixture(scope="module")
def some() -> GatesBench:
    return run(6, MATMUL, SUM)


def test_no_random_program_is_refused(some: GatesBench) -> None:
    assert some.false_refusals == ()
    assert [len(some.of(operator)) for operator in (MATMUL, SUM)] == [3, 3]
    assert all(each.is_proven and each.run_secs > 0 for each in some.passages)
    assert len({each.state for each in some.passages}) == 6


def test_the_ordinary_ones_have_a_cost(some: GatesBench) -> None:
    assert [each.cost is not None for each in some.of(MATMUL)] == [True, True, False]
    assert 0 < some.share < 1
    assert some.references[SUM].secs > some.references[SUM].check_secs > 0


def test_a_run_goes_on_with_programs_it_has_not_seen(some: GatesBench) -> None:
    more = run(8, MATMUL, SUM, known=some)
    assert more.passages[:6] == some.passages
    assert len({each.state for each in more.passages}) == 8


def test_a_space_that_is_used_up_ends_the_run() -> None:
    found = run(40, SMALL)
    assert 0 < len(found.passages) < 40
    assert found.false_refusals == ()
