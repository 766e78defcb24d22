# SPDX-License-Identifier: Apache-2.0
"""What a model is told of a program that the simulated machine has measured."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import tvm
from riscv_objects import MATMUL, space
from simulated_code import K1, TRIPS, looped
from tvm import te

from kope_tvm.briefing import Briefing
from kope_tvm.chat.dialogue import Left
from kope_tvm.context import Context, Trial
from kope_tvm.device.simulate.opinions.mca import tool
from kope_tvm.errors import KopeError
from kope_tvm.feedback.opinions import dissent, opinion_of
from kope_tvm.feedback.simulated import simulated_lines
from kope_tvm.machine import load_target
from kope_tvm.operators import parse_operator
from kope_tvm.outcome import Measurement, accept
from kope_tvm.proposal import Decisions
from kope_tvm.seat import Seat
from kope_tvm.workbench import Workbench, make_task

pytestmark = pytest.mark.device


def _has_mca() -> bool:
    try:
        return bool(tool("llvm-mca"))
    except KopeError:
        return False


def test_counters_and_the_hottest_piece() -> None:
    spec = load_target("spacemit-k1")
    counted, *by_mca = simulated_lines(space("spacemit-k1", MATMUL, "matmul_rvv").mod, spec)
    assert counted.startswith("simulated, uncalibrated: ")
    vector = re.search(r"(\d+) vector, ", counted)
    assert vector is not None
    # 64^3 multiply-adds of 8 lanes, one row of the output or more a register group.
    assert 64**3 // 64 <= int(vector[1]) <= 64**3 // 8
    assert [line.partition(":")[0] for line in by_mca] == (
        ["llvm-mca of the hottest piece"] if _has_mca() else []
    )


def test_what_takes_no_plain_numbers_is_not_counted() -> None:
    rows = tvm.tirx.Var("rows", "int32")
    given = te.placeholder((rows,), name="A")
    mod = tvm.IRModule(
        {"main": te.create_prim_func([given, te.compute((rows,), lambda i: given[i])])}
    )
    assert simulated_lines(mod, K1) == ()


@pytest.mark.parametrize("simulated", [True, False])
def test_they_reach_the_prompt_where_no_clock_measures(simulated: bool) -> None:
    spec = load_target("spacemit-k1")
    bench = Workbench(make_task("matmul", parse_operator(MATMUL).tir(), spec))
    first = bench.rule_spaces[0]
    best = Trial("a1", Decisions(first.name, first.trace), accept("device"), Measurement((6e-6,)))
    context = Context(bench.task, 2, 4, 24, 7, trials=(best,), baseline_secs=2e-4)
    made = Briefing(Seat(bench, simulated=simulated)).proposal(context, (), Left(9000, 5))
    assert made is not None
    assert "hot loop: " in made.prompt
    assert ("simulated, uncalibrated: " in made.prompt) is simulated
    assert ("cycles waited for dependencies" in made.prompt) is simulated


@pytest.mark.skipif(not _has_mca(), reason="needs llvm-mca 22")
def test_a_program_that_waits_for_memory_divides_the_opinions(tmp_path: Path) -> None:
    """A line from memory keeps the port for 26 cycles, five additions in a row take 20."""
    walk = "ld t2, 0(a1)\naddi a1, a1, 512"
    (tmp_path / "chain").mkdir()
    chain = looped(tmp_path / "chain", "fadd.s fa0, fa0, fa1\n" * 5)
    far = looped(tmp_path, walk, data_bytes=512 * TRIPS)
    winner, other = opinion_of("chain", chain, K1), opinion_of("walk", far, K1)
    assert winner.simulated / TRIPS == pytest.approx(20, rel=0.05)
    assert other.simulated / TRIPS == pytest.approx(26, rel=0.05)
    assert dissent(winner, [other]).startswith("opinions disagree: by llvm-mca the winner, chain, ")
    assert dissent(other, [winner]) == ""
