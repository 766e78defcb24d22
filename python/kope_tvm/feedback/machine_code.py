# SPDX-License-Identifier: Apache-2.0
"""Reads what LLVM makes of a scheduled module, without running it."""

from __future__ import annotations

from typing import Any

import tvm
from tvm.s_tir.transform import RemoveWeightLayoutRewriteBlock

from kope_tvm.feedback import riscv, x86
from kope_tvm.feedback.assembly import hottest
from kope_tvm.feedback.hot_loop import HotLoop
from kope_tvm.llvm_build import build

_ISAS = (x86, riscv)


def summary(mod: tvm.IRModule, tvm_target: Any) -> HotLoop | None:
    """The hottest loop of a module's code; None where no assembly can be read.

    Compiles in this process, and LLVM can crash it: only for modules that a measuring process has
    compiled already. No board is needed for another machine's code.
    """
    if str(tvm_target.kind.name) != "llvm":
        return None
    isa = next((isa for isa in _ISAS if _architecture(tvm_target) in isa.ARCHITECTURES), None)
    if isa is None:
        return None
    # As it is timed: constant weights are laid out ahead of time.
    timed = RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(mod)
    listing = build(timed, tvm_target).mod.inspect_source("asm")
    return hottest(str(listing), isa.read)


def _architecture(tvm_target: Any) -> str:
    from tvm.target import codegen

    triple = tvm_target.attrs.get("mtriple") or codegen.llvm_get_system_triple()
    return str(triple).partition("-")[0]
