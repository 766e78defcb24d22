# SPDX-License-Identifier: Apache-2.0
"""The simulated machine charges what the X60's model says: cycles that a person can work out."""

from __future__ import annotations

from pathlib import Path

import pytest
from simulated_code import K1, TRIPS, looped

from kope_tvm.device.simulate.program import simulate

M1, M4 = "vsetvli t1, zero, e32, m1, ta, ma", "vsetvli t1, zero, e32, m4, ta, ma"
EIGHT = "\n".join(f"vfmacc.vf v{8 + i}, fa0, v16" for i in range(8))
TWO_GROUPS = "vfmacc.vf v8, fa0, v16\nvfmacc.vf v12, fa0, v16"


# The step of the counter pairs with what is before it; the branch waits for the step and, taken,
# ends its group: a cycle more wherever the body itself does not wait longer.
@pytest.mark.parametrize(
    ("body", "before", "cycles"),
    [
        pytest.param(EIGHT, M1, 9, id="eight multiply-adds, one a cycle"),
        pytest.param(TWO_GROUPS, M4, 8, id="a group of four registers takes four cycles"),
        pytest.param("vfmacc.vf v8, fa0, v16", M1, 5, id="each waits for the one before it"),
        pytest.param("vle32.v v8, (a1)", M1, 3, id="a vector load every third cycle"),
        pytest.param("vle32.v v8, (a1)", M4, 8, id="a group of four loads in eight"),
        pytest.param("add t2, t3, t4\nadd t5, t3, t4", "", 3, id="two integer units"),
        pytest.param("fadd.s fa0, fa0, fa1", "", 4, id="a chain of additions"),
        pytest.param("ld t2, 0(a1)\nadd t3, t2, t2", "", 6, id="a load is used four cycles on"),
        pytest.param("div t2, t3, t4", "", 21, id="one divider"),
    ],
)
def test_cycles_of_a_loop(body: str, before: str, cycles: int, tmp_path: Path) -> None:
    _, region = simulate(looped(tmp_path, body, before), K1).regions
    assert region.cycles / TRIPS == pytest.approx(cycles, rel=0.02)


def test_counts_are_exact(tmp_path: Path) -> None:
    body = "vle32.v v8, (a1)\nvadd.vv v8, v8, v8\nlw t2, 0(a1)\nadd t3, t3, t2"
    first, second = simulate(looped(tmp_path, body, M1), K1).regions
    assert first.vector == 2 * TRIPS
    assert first.memory - 2 * TRIPS < 60
    assert first.instructions == second.instructions
    assert first.instructions - 6 * TRIPS < 200


def test_boots_agree(tmp_path: Path) -> None:
    program = looped(tmp_path, EIGHT, M1)
    assert simulate(program, K1).regions == simulate(program, K1).regions


def test_lines_that_stay_are_hits_and_those_that_do_not_are_misses(tmp_path: Path) -> None:
    """2000 lines are 125 KiB: too much for the first level of 32 KiB, not for the second."""
    walk = "ld t2, 0(a1)\naddi a1, a1, 64"
    (tmp_path / "near").mkdir()
    near = simulate(looped(tmp_path / "near", "ld t2, 0(a1)"), K1).regions[1]
    far = simulate(looped(tmp_path, walk, data_bytes=64 * TRIPS), K1).regions[1]
    assert near.l1_misses < 20
    assert far.l1_misses == pytest.approx(TRIPS, abs=20)
    assert far.l2_misses < 20
    assert far.cycles / TRIPS == pytest.approx(8, rel=0.05)


def test_the_line_says_that_it_is_simulated(tmp_path: Path) -> None:
    region = simulate(looped(tmp_path, EIGHT, M1), K1).regions[0]
    assert region.line.startswith("simulated, uncalibrated: ")
    assert region.secs == region.cycles / 1.6e9
