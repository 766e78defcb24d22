# SPDX-License-Identifier: Apache-2.0
"""Stock MetaSchedule on the board's server: its own builder, runner and RPC."""

from __future__ import annotations

from pathlib import Path

import pytest
import tvm
from board_drills import board_spec, needs_emulator
from tvm.s_tir import meta_schedule as ms
from tvm.script import tirx as T

from kope_tvm.device.simulate.board import simulated_board
from kope_tvm.machine import tvm_target

pytestmark = [pytest.mark.device, pytest.mark.slow, needs_emulator]


@T.prim_func(s_tir=True)
def _scale(A: T.Buffer((64, 64), "float32"), B: T.Buffer((64, 64), "float32")) -> None:
    T.func_attr({"global_symbol": "main"})
    for i, j in T.grid(64, 64):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)


def test_stock_tuning_fills_its_database_with_simulated_times(tmp_path: Path) -> None:
    spec = board_spec()
    with simulated_board(spec, log=tmp_path / "server.log") as board:
        place = board.place
        config = ms.runner.RPCConfig(
            tracker_host=place.host,
            tracker_port=place.port,
            tracker_key=place.key,
            session_timeout_sec=30,
        )
        evaluator = ms.runner.EvaluatorConfig(
            number=1, repeat=1, min_repeat_ms=0, enable_cpu_cache_flush=False
        )
        database = ms.tune_tir(
            tvm.IRModule({"main": _scale}),
            tvm_target(spec),
            str(tmp_path / "work"),
            max_trials_global=4,
            num_trials_per_iter=4,
            runner=ms.runner.RPCRunner(config, evaluator),
            cost_model="random",
            num_tuning_cores=1,
        )
    secs = [float(run) for each in database.get_all_tuning_records() for run in each.run_secs]
    assert 1 <= len(secs) <= 4
    assert all(0 < each < 1e-3 for each in secs)
