# SPDX-License-Identifier: Apache-2.0
"""QEMU's user mode, told to be a target's core."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kope_tvm.device.cross_compiler import TRIPLE
from kope_tvm.errors import KopeError, UsageError
from kope_tvm.target import TargetSpec

_NAMES = ("qemu-riscv64", "qemu-riscv64-static")
_SYSROOT = Path("/usr") / TRIPLE
_CAPITAL = {"zfh": "Zfh", "zfhmin": "Zfhmin"}
"""As QEMU spells them before version 8."""
_KNOWN = frozenset({"zba", "zbb", "zbc", "zbs", "zfh", "zfhmin", "zvfh", "zvfhmin"})
MIN_VLEN_BITS, MAX_VLEN_BITS = 128, 1024
"""What QEMU can be."""


@dataclass(frozen=True)
class Emulator:
    """The program and its version."""

    path: str
    version: tuple[int, int]

    def command(self, spec: TargetSpec, vlen_bits: int) -> list[str]:
        """How to start it as the target's core, with vector registers of another length or its own.

        Raises UsageError for a length it cannot have.
        """
        bits = vlen_bits or spec.facts.vlen_bits
        if bits & (bits - 1) or not MIN_VLEN_BITS <= bits <= MAX_VLEN_BITS:
            raise UsageError(
                f"vectors of {bits} bits: expected a power of two from {MIN_VLEN_BITS} to "
                f"{MAX_VLEN_BITS}"
            )
        features = [f"{self._spelled(name)}=true" for name in sorted(_wanted(spec))]
        vectors = ["v=true", f"vlen={bits}", "elen=64", "vext_spec=v1.0"]
        return [self.path, "-cpu", ",".join(["rv64", *vectors, *features])]

    def environment(self) -> Mapping[str, str]:
        """What the guest needs to find its libraries, all of them before its first instruction.

        Bound later, the first count of instructions after a start differs from all others.
        """
        return {"LD_BIND_NOW": "1", "QEMU_LD_PREFIX": str(_SYSROOT)}

    def _spelled(self, name: str) -> str:
        return _CAPITAL.get(name, name) if self.version < (8, 0) else name


def find_emulator() -> Emulator:
    """QEMU on the path; KopeError says what to install where it or the guest's libc is missing."""
    path = next(filter(None, map(shutil.which, _NAMES)), None)
    if path is None:
        raise KopeError(
            "no qemu-riscv64 on the path, which emulates a board; Debian and Ubuntu: apt install "
            "qemu-user"
        )
    if not (_SYSROOT / "lib").is_dir():
        raise KopeError(f"no {_SYSROOT}/lib; Debian and Ubuntu: apt install g++-{TRIPLE}")
    said = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"version (\d+)\.(\d+)", said)
    return Emulator(path, (int(found[1]), int(found[2])) if found else (0, 0))


def _wanted(spec: TargetSpec) -> frozenset[str]:
    given = spec.tvm_target.get("mattr", ())
    names = {str(each).removeprefix("+") for each in given} if isinstance(given, list) else set()
    return frozenset(names & _KNOWN)
