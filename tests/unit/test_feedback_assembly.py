# SPDX-License-Identifier: Apache-2.0
"""The hot loop of small listings whose counts can be read off them."""

from __future__ import annotations

import pytest

from kope_tvm.feedback import riscv, x86
from kope_tvm.feedback.assembly import hottest
from kope_tvm.feedback.hot_loop import HotLoop

X86 = """
	.text
	.type	main_compute_,@function
main_compute_:
	pushq	%rbx
	movq	(%rdi), %rax
.LBB0_1:
	movq	$-64, %rcx
.LBB0_2:
	vbroadcastss	(%rsi,%rcx), %zmm2
	vfmadd231ps	(%rax,%rcx,4), %zmm2, %zmm0
	vfmadd231ps	%zmm3, %zmm2, %zmm1
	vmovups	%zmm1, 64(%rsp)
	addq	$4, %rcx
	jne	.LBB0_2
	vmovups	%zmm0, (%rdx)
	decl	%edi
	jne	.LBB0_1
	popq	%rbx
	retq
"""

RISCV = """
main_compute_:
	addi	sp, sp, -64
.LBB0_1:
	vsetivli	zero, 16, e32, m2, ta, ma
	flw	fa5, 0(a1)
	vle32.v	v8, (a2)
	vfmacc.vf	v10, fa5, v8
	addi	a5, sp, 16
	vs2r.v	v10, (a5)
	addi	a1, a1, 4
	bne	a1, a3, .LBB0_1
	ret
"""


def _loop(listing: str, isa: object = x86) -> HotLoop:
    found = hottest(listing, isa.read)  # type: ignore[attr-defined]
    assert found is not None
    return found


def test_the_innermost_loop_of_x86() -> None:
    loop = _loop(X86)
    assert (loop.function, loop.depth, loop.instructions) == ("main_compute_", 2, 6)
    assert (loop.fma, loop.loads, loop.stores, loop.spills) == (2, 2, 1, 1)
    assert (loop.shuffles, loop.scalar, loop.branches, loop.calls) == (0, 1, 1, ())
    assert loop.registers == "zmm"
    assert loop.line == "hot loop: 6 instr, 2 fma zmm, 2 loads, 1 stores, 1 spills; no calls"


def test_the_loop_of_riscv() -> None:
    loop = _loop(RISCV, riscv)
    assert (loop.depth, loop.instructions, loop.fma) == (1, 8, 1)
    assert (loop.loads, loop.stores, loop.spills) == (2, 1, 1)
    assert loop.registers == "v m2 e32"


def _body(*code: str, before: tuple[str, ...] = ()) -> str:
    return "\n".join(["f:", *before, ".LBB0_1:", *code, "\tjne\t.LBB0_1", "\tretq"])


@pytest.mark.parametrize(
    ("code", "counted"),
    [
        ("\tvfmadd231ss\t(%rax), %xmm1, %xmm0", {"fma": 1, "loads": 1, "registers": "scalar"}),
        ("\tmulss\t%xmm1, %xmm0", {"arithmetic": 1, "registers": "scalar"}),
        ("\tmulps\t%xmm1, %xmm0", {"arithmetic": 1, "registers": "xmm"}),
        ("\tvpdpbusd\t%zmm1, %zmm2, %zmm0", {"fma": 1, "registers": "zmm"}),
        ("\tvpaddd\t%ymm1, %ymm2, %ymm0", {"arithmetic": 1, "registers": "ymm"}),
        ("\tvpermps\t%zmm1, %zmm2, %zmm0", {"shuffles": 1, "registers": ""}),
        ("\tvbroadcastss\t%xmm1, %zmm0", {"shuffles": 1}),
        ("\tvbroadcastss\t(%rax), %zmm0", {"shuffles": 0, "loads": 1}),
        ("\tvcvtdq2ps\t%zmm1, %zmm0", {"converts": 1}),
        ("\tvpmovsxbd\t(%rax), %zmm0", {"converts": 1, "loads": 1}),
        ("\tvgatherdps\t(%rax,%zmm1,4), %zmm0 {%k1}", {"gathers": 1, "loads": 1}),
        ("\tcallq\texpf@PLT", {"calls": ("expf",)}),
        ("\tcallq\t*%rax", {"calls": ("a pointer",)}),
        ("\tcmpq\t%rax, 8(%rsp)", {"loads": 1, "stores": 0, "spills": 1}),
        ("\tleaq\t8(%rsp), %rax", {"loads": 0, "spills": 0}),
        ("\tvmovups\t(%rbp,%rax), %zmm0", {"loads": 1, "spills": 0}),
    ],
)
def test_an_instruction_of_x86(code: str, counted: dict[str, object]) -> None:
    loop = _loop(_body(code))
    assert {name: getattr(loop, name) for name in counted} == counted


def test_a_frame_pointer_reaches_the_stack() -> None:
    code, frame = "\tvmovups\t-64(%rbp), %zmm0", ("\tmovq\t%rsp, %rbp",)
    assert _loop(_body(code, before=frame)).spills == 1


def test_a_wide_loop_is_hotter_than_the_scalar_one_after_it() -> None:
    wide = _body("\tvfmadd231ps\t%zmm1, %zmm2, %zmm0").removesuffix("\tretq")
    tail = ".LBB0_2:\n\tvfmadd231ss\t%xmm1, %xmm2, %xmm0\n\tjne\t.LBB0_2\n\tretq"
    assert _loop(wide + tail).registers == "zmm"


def test_a_function_without_a_loop() -> None:
    loop = _loop("f:\n\tvaddps\t%ymm1, %ymm2, %ymm0\n\tretq")
    assert (loop.depth, loop.arithmetic) == (0, 1)
    assert loop.line.startswith("no loop: 2 instr, no fma, 1 arithmetic ymm, ")


def test_a_forward_jump_is_no_loop() -> None:
    assert _loop("f:\n\tjne\t.LBB0_1\n\tvaddps\t%ymm1, %ymm2, %ymm0\n.LBB0_1:\n\tretq").depth == 0


def test_a_listing_without_code_has_no_loop() -> None:
    assert hottest("\t.text\n\t.quad\t1\n", x86.read) is None


def test_the_line_stays_short() -> None:
    calls = "\n".join(f"\tcallq\ta_function_with_a_long_name_{number}@PLT" for number in range(9))
    assert len(_loop(_body(calls)).line) == 200
