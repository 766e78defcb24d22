# SPDX-License-Identifier: Apache-2.0
"""Simulated time through the ordinary road: tracker, server, upload, `time_evaluator`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from riscv_objects import MATMUL, space
from simulated_code import on_cores
from tvm.s_tir.meta_schedule.arg_info import TensorInfo
from tvm.s_tir.meta_schedule.runner import EvaluatorConfig, RPCConfig, RPCRunner, RunnerInput

from kope_tvm.device.board import open_session
from kope_tvm.device.cross_compiler import find_cross_compiler
from kope_tvm.device.simulate.board import SimulatedBoard, simulated_board
from kope_tvm.device.simulate.counted import Counted
from kope_tvm.machine import load_target, tvm_target
from kope_tvm.target import TargetSpec

pytestmark = [pytest.mark.device, pytest.mark.slow]
REPEATS = 3


@pytest.fixture(scope="module")
def k1() -> TargetSpec:
    spec: TargetSpec = on_cores(load_target("spacemit-k1"), 8)
    return spec


@pytest.fixture(scope="module")
def library(k1: TargetSpec, tmp_path_factory: pytest.TempPathFactory) -> str:
    mod = space("spacemit-k1", MATMUL, "matmul_rvv").mod
    made = tmp_path_factory.mktemp("library") / "matmul.so"
    compiler = tvm.support.cc.cross_compiler(find_cross_compiler().cxx)
    tvm.compile(mod, target=tvm_target(k1)).export_library(str(made), fcompile=compiler)
    return str(made)


def _measured(board: SimulatedBoard, library: str) -> tuple[tuple[float, ...], float]:
    """Seconds of each repeat, and the largest error of the product."""
    session = open_session(board.place, 60.0)
    remote: Any = session.remote
    function, device = session.load(library), remote.cpu(0)
    rng = np.random.default_rng(3)
    left, right = (rng.uniform(0.5, 2.0, (64, 64)).astype("float32") for _ in range(2))
    arrays = (left, right, np.zeros((64, 64), "float32"))
    tensors = [tvm.runtime.tensor(each, device) for each in arrays]
    timer = function.time_evaluator("main", device, number=1, repeat=REPEATS)
    found = tuple(float(each) for each in timer(*tensors).results)
    return found, float(np.abs(tensors[-1].numpy() - left @ right).max())


def test_time_is_the_same_at_every_repeat_and_boot(k1: TargetSpec, library: str) -> None:
    times: list[float] = []
    for _ in range(2):
        with simulated_board(k1) as board:
            found, error = _measured(board, library)
            times += found
            _check_counters(board.counted(), found)
            assert error < 1e-3
            assert board.mark == "simulated, uncalibrated"
    assert max(times) / min(times) - 1 <= 2e-4, times


def _check_counters(regions: tuple[Counted, ...], secs: tuple[float, ...]) -> None:
    assert [each.secs for each in regions] == pytest.approx(list(secs), abs=1e-9)
    assert len({each.vector for each in regions}) == 1
    multiply_adds = 64**3 // 16
    assert multiply_adds < regions[0].vector < 1.5 * multiply_adds


def test_metaschedules_own_runner_is_told_simulated_seconds(k1: TargetSpec, library: str) -> None:
    with simulated_board(k1) as board:
        place = board.place
        runner = RPCRunner(
            rpc_config=RPCConfig(place.host, place.port, place.key, session_timeout_sec=60),
            evaluator_config=EvaluatorConfig(number=1, repeat=2, min_repeat_ms=0),
            max_workers=1,
        )
        tensors = [TensorInfo("float32", [64, 64])] * 3
        (future,) = runner.run([RunnerInput(library, "cpu", tensors)])
        result = future.result()
        assert result.error_msg is None
        first, second = (float(each) for each in result.run_secs)
        assert first == second == pytest.approx(board.counted()[-1].secs, abs=1e-9)
