# SPDX-License-Identifier: Apache-2.0
"""SpacemiT's small matrix products on Spike: operands as the public specification lays them out."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from kope_tvm.device.program.link import COMPILER, Program, link
from kope_tvm.device.spike.emulator import run, spike
from kope_tvm.device.spike.ime import ime_library
from kope_tvm.errors import KopeError

try:
    spike()
except KopeError as missing:
    pytest.skip(str(missing), allow_module_level=True)

TILES = 5
SIGNED, UNSIGNED = 3, 0
KERNEL = """
    .globl __tvm_ffi_main
__tvm_ffi_main:
    ld a3, 8(a1)
    ld a3, 0(a3)
    ld a4, 24(a1)
    ld a4, 0(a4)
    ld a5, 40(a1)
    ld a5, 0(a5)
    li t1, {tiles}
    vsetivli zero, 16, e32, m2, ta, ma
    vmv.v.i v16, 0
1:  vsetvli t0, zero, e8, m1, ta, ma
    vle8.v v4, (a3)
    vle8.v v8, (a4)
    .insn r CUSTOM_1, {signs}, 0x71, x16, x4, x8
    add a3, a3, t0
    add a4, a4, t0
    addi t1, t1, -1
    bnez t1, 1b
    vsetivli zero, 16, e32, m2, ta, ma
    vse32.v v16, (a5)
    li a0, 0
    ret
"""


def _product(folder: Path, dtype: str, signs: int) -> tuple[Program, np.ndarray]:
    """4x8 times 8x4 at 256 bits, summed over tiles; the second factor lies column by column."""
    source, made = folder / "kernel.S", folder / "kernel.o"
    source.write_text(KERNEL.format(tiles=TILES, signs=signs))
    subprocess.run([COMPILER, "-march=rv64gcv", "-c", "-o", made, source], check=True)
    info, rng = np.iinfo(dtype), np.random.default_rng(1)
    left, right = (
        rng.integers(info.min, info.max, (TILES, 4, 8), dtype, endpoint=True) for _ in range(2)
    )
    wanted = np.einsum("tmk,tnk->mn", left.astype("int32"), right.astype("int32"))
    out = np.full((4, 4), 77, "int32")
    program = Program(made.read_bytes(), (left, right, out), (False, False, True))
    return program, wanted


@pytest.mark.parametrize(("dtype", "signs"), [("int8", SIGNED), ("uint8", UNSIGNED)])
def test_vmadot_is_a_product_of_tiles(dtype: str, signs: int, tmp_path: Path) -> None:
    program, wanted = _product(tmp_path, dtype, signs)
    made = link(program, tmp_path, is_bare=True)
    (found,) = program.outputs(run(made, 256, 30.0, ime_library()))
    np.testing.assert_array_equal(found, wanted)


def test_a_core_without_it_refuses_the_instruction(tmp_path: Path) -> None:
    program, _ = _product(tmp_path, "int8", SIGNED)
    made = link(program, tmp_path, is_bare=True)
    with pytest.raises(KopeError, match="trapped on Spike: illegal instruction"):
        run(made, 256, 30.0)
