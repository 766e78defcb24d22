# SPDX-License-Identifier: Apache-2.0
"""Assembly with a cost that a person can work out, as a function that the harness calls."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kope_tvm.device.cross_compiler import find_cross_compiler
from kope_tvm.device.emulator import find_emulator
from kope_tvm.device.program.link import COMPILER, Program
from kope_tvm.errors import KopeError
from kope_tvm.target import Facts, TargetSpec

try:
    find_emulator()
    find_cross_compiler()
except KopeError as missing:
    pytest.skip(str(missing), allow_module_level=True)

TRIPS = 2000
K1 = TargetSpec("k1", {"kind": "llvm"}, Facts("rvv", 256, 32, 8, 32 << 10, 512 << 10, 0, 1.6e9))
_FUNCTION = """
    .globl __tvm_ffi_main
__tvm_ffi_main:
    ld a1, 8(a1)
    ld a1, 0(a1)
    {before}
    li t0, {trips}
    .balign 64
1:
    {body}
    addi t0, t0, -1
    bnez t0, 1b
    li a0, 0
    ret
"""


def looped(folder: Path, body: str, before: str = "", data_bytes: int = 64) -> Program:
    """`body` so many times; a1 holds the address of an array that stays as it is."""
    source, made = folder / "function.S", folder / "made.o"
    source.write_text(_FUNCTION.format(before=before, trips=TRIPS, body=body))
    subprocess.run([COMPILER, "-march=rv64gcv_zba", "-c", "-o", made, source], check=True)
    data = np.arange(data_bytes, dtype=np.uint8)
    return Program(made.read_bytes(), (data,), (True,), num_warm=1, num_timed=2)


def on_cores(spec: TargetSpec, num_cores: int) -> TargetSpec:
    """The same machine with so many cores."""
    return replace(spec, facts=replace(spec.facts, num_cores=num_cores))
