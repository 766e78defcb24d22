# SPDX-License-Identifier: Apache-2.0
"""Whether the foreign code that a function brings along is that of intrinsics it tensorized."""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import tirx
from tvm.s_tir import SBlock

from kope_tvm.candidate import Candidate
from kope_tvm.untuned import of_intrinsics, scheduled_func

IMPORT_LLVM = "pragma_import_llvm"
_ON_A_LOOP = "on a loop or a block"
"""Intrinsics bring code as a statement: an annotation is somebody else's."""


def is_of_intrinsics(candidate: Candidate) -> bool:
    """Whether every text that LLVM is handed is one that a tensorized intrinsic hands it."""
    found = imported_texts(scheduled_func(candidate))
    return found <= of_intrinsics(imported_texts, candidate)


def imported_texts(func: Any) -> frozenset[str]:
    """What LLVM is handed beside the function."""
    found: set[str] = set()

    def attribute(node: tirx.AttrStmt) -> None:
        if node.attr_key == IMPORT_LLVM:
            found.add(str(getattr(node.value, "value", node.value)))

    def annotated(node: Any) -> None:
        if IMPORT_LLVM in node.annotations:
            found.add(_ON_A_LOOP)

    walked = [(tirx.AttrStmt, attribute), (tirx.For, annotated), (SBlock, annotated)]
    tvm_ffi.structural_walk(func.body, walked)
    return frozenset(found)
