# SPDX-License-Identifier: Apache-2.0
"""The vector units that rules are written for: x86's, and RVV's with its registers in groups."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tvm import tirx
from tvm.s_tir import Schedule

from kope_tvm.target import TargetSpec

Rule = Callable[[tirx.PrimFunc, TargetSpec], list[Schedule]]

_GROUPS = (2, 4, 1)
"""LMULs that rules try, the best guess first: 8 leaves too few registers for a tile."""
_X86 = frozenset({"avx512", "avx2", "sse"})


def is_x86(target: TargetSpec) -> bool:
    """Whether `target` has vectors of a known width and an x86 instruction set."""
    return target.facts.isa in _X86 and _has_vectors(target)


def is_rvv(target: TargetSpec) -> bool:
    """Whether `target` has RISC-V's vector extension, of a known width."""
    return target.facts.isa == "rvv" and _has_vectors(target)


def _has_vectors(target: TargetSpec) -> bool:
    return target.facts.vlen_bits > 0 and target.facts.vector_registers > 0


def grouped(target: TargetSpec, lmul: int) -> TargetSpec:
    """The machine as code of that LMUL sees it: wider vectors, and fewer of them."""
    facts = target.facts
    wide = replace(
        facts,
        vlen_bits=facts.vlen_bits * lmul,
        vector_registers=facts.vector_registers // lmul,
    )
    return replace(target, facts=wide)


def by_groups(rule: Rule, func: tirx.PrimFunc, target: TargetSpec) -> list[Schedule]:
    """The rule's spaces at each LMUL, the first ones of all LMULs first; none without RVV."""
    if not is_rvv(target):
        return []
    found = [rule(func, grouped(target, lmul)) for lmul in _GROUPS]
    most = max(map(len, found))
    return [spaces[at] for at in range(most) for spaces in found if at < len(spaces)]
