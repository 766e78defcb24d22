# SPDX-License-Identifier: Apache-2.0
"""The board's server under emulation: who may talk to it, what it loads, what it survives."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tvm
from board_drills import board_spec, double, library, needs_emulator

from kope_tvm.device.board import open_session
from kope_tvm.device.build import build_server
from kope_tvm.device.emulate import EmulatedBoard, Options, emulated_board
from kope_tvm.device.place import Place
from kope_tvm.device.tracker import num_registered
from kope_tvm.errors import KopeError, VersionError

pytestmark = [pytest.mark.device, needs_emulator]
LIMIT_SECS = 30.0


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("board") / "server.log"


@pytest.fixture(scope="module")
def board(log: Path) -> Iterator[EmulatedBoard]:
    options = Options(server=("--file-bytes", str(1 << 20)), log=log)
    with emulated_board(board_spec(), options) as running:
        yield running


def doubled(place: Place, path: str) -> np.ndarray:
    session = open_session(place, LIMIT_SECS)
    module, device = session.load(path), session.remote.cpu(0)
    given = tvm.runtime.tensor(np.arange(64, dtype="float32"), device)
    result = tvm.runtime.tensor(np.zeros(64, "float32"), device)
    module["main"](given, result)
    return np.asarray(result.numpy())


def test_a_round_trip_computes_on_the_board(board: EmulatedBoard, tmp_path: Path) -> None:
    path = library(double, board_spec(), tmp_path / "double.so")
    assert doubled(board.place, path).tolist() == [2.0 * i for i in range(64)]


def test_it_says_what_it_is(board: EmulatedBoard) -> None:
    info = open_session(board.place, LIMIT_SECS).info
    assert (info.key, info.vlen_bits, info.machine) == ("spacemit-k1", 256, "riscv64")
    assert info.emulated
    assert not info.tells_time


def test_it_has_what_stock_runners_fill_arguments_with(board: EmulatedBoard) -> None:
    session = open_session(board.place, LIMIT_SECS)
    assert session.remote.get_function("tvm.contrib.random.random_fill_for_measure")


def test_longer_vectors_than_the_core_has_are_refused(tmp_path: Path) -> None:
    spec = board_spec()
    path = library(double, spec, tmp_path / "double.so")
    with (
        emulated_board(spec, Options(vlen_bits=128, log=tmp_path / "log")) as short,
        pytest.raises(KopeError, match=r"E_VLEN built for vectors of at least 256 bits.*128 bits"),
    ):
        open_session(short.place, LIMIT_SECS).load(path)


def test_shorter_vectors_than_the_core_has_are_right(board: EmulatedBoard, tmp_path: Path) -> None:
    path = library(double, board_spec("generic-rv64gcv"), tmp_path / "double.so")
    assert doubled(board.place, path).tolist() == [2.0 * i for i in range(64)]


def test_what_is_for_another_machine_is_refused(board: EmulatedBoard, tmp_path: Path) -> None:
    path = tmp_path / "double.so"
    tvm.compile(tvm.IRModule({"main": double}), target="llvm").export_library(str(path))
    with pytest.raises(KopeError, match=r"spacemit-k1.*no 64-bit RISC-V ELF file"):
        open_session(board.place, LIMIT_SECS).load(str(path))


def test_a_full_disk_refuses_the_upload(board: EmulatedBoard, log: Path, tmp_path: Path) -> None:
    large = tmp_path / "large.so"
    large.write_bytes(bytes(2 << 20))
    with pytest.raises(KopeError, match="E_DISK cannot write 2097152 bytes"):
        open_session(board.place, LIMIT_SECS).load(str(large))
    path = library(double, board_spec(), tmp_path / "double.so")
    assert doubled(board.place, path)[1] == 2.0


def test_files_outside_proc_and_sys_are_not_shown(board: EmulatedBoard) -> None:
    session = open_session(board.place, LIMIT_SECS)
    assert list(session.ask("kope.server.files", "/proc/cpuin*")) == ["/proc/cpuinfo"]
    with pytest.raises(KopeError, match="only files under /proc and /sys"):
        session.ask("kope.server.files", "/etc/passwd")


def test_a_server_of_another_version_is_refused_by_both(tmp_path: Path) -> None:
    old = build_server(versions=("0.26.0", "0.1.14.post1"))
    log = tmp_path / "server.log"
    with (
        emulated_board(board_spec(), Options(log=log), binary=old) as board,
        pytest.raises(VersionError, match=r"spacemit-k1.*this server has tvm 0\.26\.0"),
    ):
        open_session(board.place, LIMIT_SECS)
    assert "kope-server spacemit-k1: refused a client: E_VERSION" in log.read_text()


def test_a_killed_server_comes_back(board: EmulatedBoard, tmp_path: Path) -> None:
    path = library(double, board_spec(), tmp_path / "double.so")
    board.server.kill()
    for _ in range(50):
        if num_registered(board.place) == 0:
            break
    with pytest.raises(KopeError, match="no server is registered"):
        open_session(board.place, LIMIT_SECS)
    board.start()
    assert doubled(board.place, path)[1] == 2.0


def test_nothing_is_left_when_it_ends(tmp_path: Path) -> None:
    with emulated_board(board_spec(), Options(log=tmp_path / "log")) as board:
        pid = board.server.pid
        os.kill(pid, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_no_tracker_is_a_clear_error() -> None:
    with pytest.raises(KopeError, match=r"no tracker at 127\.0\.0\.1:1"):
        num_registered(Place("127.0.0.1", 1, "spacemit-k1"))


def test_the_command_serves_until_it_is_interrupted() -> None:
    command = Path(sys.executable).with_name("kope")
    serving = subprocess.Popen(
        [command, "device", "serve", "--target", "generic-rv64gcv", "--emulate"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert serving.stdout is not None
    said = dict(part.split("=") for part in serving.stdout.readline().split()[1:])
    place = Place(said["TVM_TRACKER_HOST"], int(said["TVM_TRACKER_PORT"]), said["TVM_TRACKER_KEY"])
    assert open_session(place, LIMIT_SECS).info.vlen_bits == 128
    serving.send_signal(signal.SIGINT)
    assert serving.wait(timeout=20) == 130
