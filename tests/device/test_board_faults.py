# SPDX-License-Identifier: Apache-2.0
"""The measuring pool on a board: each fault costs one candidate, and the log says which board."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest
from board_drills import (
    RUN_SECS,
    board_spec,
    double,
    hungry,
    needs_emulator,
    out_of_bounds,
    raising,
    triple,
)
from measure_kernels import endless
from measure_pool import LOG, measured, mod_of

from kope_tvm.boards import SIMULATED, Met
from kope_tvm.device.board import open_session
from kope_tvm.device.processes import TrackerProcess
from kope_tvm.device.simulate.board import SimulatedBoard, simulated_board
from kope_tvm.device.tracker import num_registered
from kope_tvm.errors import TargetError
from kope_tvm.measure import MeasureConfig, Pool

pytestmark = [pytest.mark.device, needs_emulator]
CONFIG = MeasureConfig(num_seeds=1)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("board") / "server.log"


@pytest.fixture(scope="module")
def tracker() -> Iterator[list[TrackerProcess]]:
    """The one that runs, last."""
    started = [TrackerProcess()]
    yield started
    started[-1].end()


@pytest.fixture(scope="module")
def board(log: Path, tracker: list[TrackerProcess]) -> Iterator[SimulatedBoard]:
    place = "127.0.0.1", tracker[-1].port
    with simulated_board(board_spec(), tracker=place, log=log) as running:
        yield running


@pytest.fixture(scope="module")
def pool(board: SimulatedBoard) -> Iterator[Pool]:
    with Pool(board_spec(), CONFIG, LOG, Met(board.place, SIMULATED)) as shared:
        yield shared


def last_lines(log: Path, count: int) -> str:
    return "\n".join(log.read_text().splitlines()[-count:])


def test_a_target_with_a_key_needs_a_board() -> None:
    with pytest.raises(TargetError, match="reached through an RPC tracker"):
        Pool(board_spec(), CONFIG, LOG)


def test_outputs_are_compared_on_the_board(pool: Pool) -> None:
    right, wrong = measured(pool, [double, triple], double)
    assert right.ok
    assert wrong.code == "E_NUMERICS"


@pytest.mark.parametrize("name", ["SIGILL", "SIGBUS", "SIGSEGV"])
def test_a_signal_costs_one_candidate(pool: Pool, log: Path, name: str) -> None:
    broken, right = measured(pool, [raising(signal.Signals[name]), double], double)
    assert broken.code == "E_CRASH"
    assert f"board spacemit-k1 was killed by {name.removeprefix('SIG')}" in broken.error
    assert right.ok
    assert "kope-server spacemit-k1: session" in last_lines(log, 8)


def test_a_wild_store_costs_one_candidate(pool: Pool) -> None:
    broken, right = measured(pool, [out_of_bounds, double], double)
    assert broken.code == "E_CRASH"
    assert "killed by SEGV" in broken.error
    assert right.ok


def test_an_endless_kernel_costs_one_candidate(pool: Pool, log: Path) -> None:
    started = time.monotonic()
    hanging, right = measured(pool, [endless, double], double)
    assert hanging.code == "E_TIMEOUT"
    assert right.ok
    assert time.monotonic() - started < 8 * RUN_SECS
    assert "spacemit-k1: session" in last_lines(log, 8)
    assert "its client has gone" in last_lines(log, 8)


def test_an_allocation_bomb_costs_one_candidate(pool: Pool) -> None:
    greedy, right = measured(pool, [hungry, double], double)
    assert greedy.code in {"E_CRASH", "E_TIMEOUT"}
    assert right.ok


def test_a_board_without_power_costs_one_candidate(pool: Pool, board: SimulatedBoard) -> None:
    server = board.emulated.server
    pool.baseline(mod_of(double))
    time.sleep(1)  # Until the tracker has it again: the power fails as the next one comes.
    os.killpg(server.pid, signal.SIGSTOP)
    try:
        (silent,) = measured(pool, [double], double)
    finally:
        os.killpg(server.pid, signal.SIGCONT)
    assert silent.code in {"E_TIMEOUT", "E_DEVICE"}
    (right,) = measured(pool, [double], double)
    assert right.ok


def test_waiting_for_a_busy_board_is_not_counted(pool: Pool, board: SimulatedBoard) -> None:
    pool.baseline(mod_of(double))

    def hold() -> None:
        session = open_session(board.place, 60)
        time.sleep(2 * RUN_SECS)
        del session

    other = Thread(target=hold)
    other.start()
    time.sleep(1)
    (right,) = measured(pool, [double], double)
    other.join()
    assert right.ok
    assert right.device_secs > RUN_SECS


def test_a_server_that_was_killed_and_started_again(pool: Pool, board: SimulatedBoard) -> None:
    board.emulated.server.kill()
    (lost,) = measured(pool, [double], double)
    assert lost.code == "E_DEVICE"
    assert "board spacemit-k1" in lost.error
    board.emulated.start()
    (right,) = measured(pool, [double], double)
    assert right.ok


def test_a_tracker_that_was_restarted(
    pool: Pool, board: SimulatedBoard, tracker: list[TrackerProcess]
) -> None:
    port = tracker[-1].port
    tracker[-1].end()
    (lost,) = measured(pool, [double], double)
    assert lost.code in {"E_DEVICE", "E_TIMEOUT"}
    tracker.append(TrackerProcess(port))
    assert tracker[-1].port == port
    deadline = time.monotonic() + 30
    while num_registered(board.place) == 0 and time.monotonic() < deadline:
        time.sleep(0.2)
    (right,) = measured(pool, [double], double)
    assert right.ok
