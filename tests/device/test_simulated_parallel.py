# SPDX-License-Identifier: Apache-2.0
"""Functions that TVM compiled, on the simulated machine: cores, vector forms, repeated boots."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
from riscv_objects import MATMUL, program
from simulated_code import on_cores

from kope_tvm.device.program.link import Program
from kope_tvm.device.simulate.opinions.mca import tool
from kope_tvm.device.simulate.program import hot_piece, simulate
from kope_tvm.errors import KopeError
from kope_tvm.llvm_build import object_bytes
from kope_tvm.machine import load_target, tvm_target
from kope_tvm.operators import parse_operator
from kope_tvm.target import TargetSpec

LANES_OF_TWO_REGISTERS = 16


@pytest.fixture(scope="module")
def k1() -> TargetSpec:
    return load_target("spacemit-k1")


def test_right_numbers_and_every_multiply_add_counted(k1: TargetSpec) -> None:
    made, wanted = program("spacemit-k1", MATMUL, "matmul_rvv")
    simulated = simulate(made, k1)
    np.testing.assert_allclose(simulated.outputs[0], wanted, rtol=1e-5)
    multiply_adds = 64**3 // LANES_OF_TWO_REGISTERS
    (region,) = simulated.regions
    assert multiply_adds < region.vector < 1.5 * multiply_adds


def test_eight_cores_share_the_work_of_one(k1: TargetSpec) -> None:
    """Counters are of all cores together; time is of the slowest, and starting them costs some.

    The vector length is set once by each core, before its rows.
    """
    made, _ = program("spacemit-k1", MATMUL, "matmul_rvv")
    (alone,) = simulate(replace(made, num_cores=1), on_cores(k1, 1)).regions
    (shared,) = simulate(made, k1).regions
    assert shared.vector == alone.vector + (8 - 1)
    assert alone.cycles > 64**3 / LANES_OF_TWO_REGISTERS * 2
    assert alone.cycles / 8 < shared.cycles < alone.cycles / 4


def test_boots_agree_to_the_cycle(k1: TargetSpec) -> None:
    made, _ = program("spacemit-k1", MATMUL, "matmul_rvv")
    assert len({simulate(made, k1).regions for _ in range(3)}) == 1


def test_scalar_code_is_slower(k1: TargetSpec) -> None:
    tuned, _ = program("spacemit-k1", MATMUL, "matmul_rvv")
    untuned = object_bytes(parse_operator(MATMUL).tir(), tvm_target(k1))
    (slow,) = simulate(replace(tuned, object_bytes=untuned), k1).regions
    (fast,) = simulate(tuned, k1).regions
    assert slow.cycles > 10 * fast.cycles


def test_a_trial_takes_a_fraction_of_a_second(k1: TargetSpec) -> None:
    made, _ = program("spacemit-k1", MATMUL, "matmul_rvv")
    simulate(made, k1)
    started = time.perf_counter()
    simulate(made, k1)
    assert time.perf_counter() - started < 3


def test_a_function_that_fails_is_an_error_with_its_exit_code(k1: TargetSpec) -> None:
    made, _ = program("spacemit-k1", MATMUL, "matmul_rvv")
    one_short = Program(made.object_bytes, made.arguments[1:], made.written[1:])
    with pytest.raises(KopeError, match="exit code 1"):
        simulate(one_short, k1)


def test_the_hot_piece_is_bound_by_the_unit_of_its_multiply_adds(k1: TargetSpec) -> None:
    """Four k, four rows, two vectors of two registers each: 32 multiply-adds, two cycles each."""
    try:
        tool("llvm-mca")
    except KopeError as missing:
        pytest.skip(str(missing))
    made, _ = program("spacemit-k1", MATMUL, "matmul_rvv")
    hot = hot_piece(made, k1)
    assert (hot.unit, hot.unit_cycles) == ("VFP", 64)
    assert hot.line.startswith("llvm-mca of the hottest piece: ")
