# SPDX-License-Identifier: Apache-2.0
"""Where a board is met, and what a target asks of the emulator."""

from __future__ import annotations

import pytest

from kope_tvm.device.emulator import Emulator
from kope_tvm.device.place import Place, parse_tracker, place_of
from kope_tvm.device.served import riscv_target
from kope_tvm.errors import UsageError
from kope_tvm.machine import read_target

K1 = read_target("spacemit-k1")
QEMU = Emulator("/usr/bin/qemu-riscv64", (7, 2))


def test_a_tracker_is_a_host_and_a_port() -> None:
    assert parse_tracker("10.0.0.2:9190") == ("10.0.0.2", 9190)


@pytest.mark.parametrize("text", ["10.0.0.2", ":9190", "host:", "host:port"])
def test_what_is_no_tracker_is_a_wrong_call(text: str) -> None:
    with pytest.raises(UsageError, match="expected HOST:PORT"):
        parse_tracker(text)


def test_the_key_is_the_target_s_own() -> None:
    environment = {
        "TVM_TRACKER_HOST": "pi",
        "TVM_TRACKER_PORT": "9190",
        "TVM_TRACKER_KEY": "another",
    }
    assert place_of(K1, environment=environment) == Place("pi", 9190, "spacemit-k1")
    assert place_of(K1, "here:1", environment) == Place("here", 1, "spacemit-k1")


def test_without_a_tracker_there_is_no_place() -> None:
    assert place_of(K1, environment={"TVM_TRACKER_HOST": "pi"}) is None


def test_the_emulator_has_the_target_s_vectors_and_extensions() -> None:
    option, core = QEMU.command(K1, 0)[1:]
    assert option == "-cpu"
    assert core.startswith("rv64,v=true,vlen=256,elen=64,vext_spec=v1.0,zba=true,zbb=true,zbs=true")
    assert "vlen=512" in QEMU.command(K1, 512)[2]


@pytest.mark.parametrize("bits", [64, 300, 2048])
def test_the_emulator_cannot_have_every_vector_length(bits: int) -> None:
    with pytest.raises(UsageError, match="power of two from 128 to 1024"):
        QEMU.command(K1, bits)


def test_the_three_spacemit_cores_are_told_apart() -> None:
    keys = {read_target(f"spacemit-{name}").key for name in ("k1", "k3-x100", "k3-a100")}
    assert keys == {"llvm/x60/rvv/256/8", "llvm/x100/rvv/256/8", "llvm/a100/rvv/1024/8"}


def test_this_machine_is_no_board() -> None:
    with pytest.raises(UsageError, match="'host' is no RISC-V board"):
        riscv_target("host")
