# SPDX-License-Identifier: Apache-2.0
"""Loads only those of TVM's tensor intrinsics that a CPU can use.

A TuneContext imports them all: a second and a half, most of it parsing what GPUs need.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType

from kope_tvm.quick_stack import quick_stack

_PACKAGE = "tvm.s_tir.tensor_intrin"
_NOT_OF_CPUS = ("cuda", "rocm", "hexagon")
_CPU_KINDS = frozenset({"llvm", "c"})


@contextmanager
def intrinsics_for(target_kind: str) -> Iterator[None]:
    """Leave out the others while a TuneContext is made.

    The package is forgotten afterwards, though not the parts that were loaded: whoever imports it
    next gets it whole.
    """
    if target_kind not in _CPU_KINDS or _PACKAGE in sys.modules:
        yield
        return
    names = [f"{_PACKAGE}.{name}" for name in _NOT_OF_CPUS]
    placeholders = {name: ModuleType(name) for name in names if name not in sys.modules}
    sys.modules.update(placeholders)
    try:
        yield
    finally:
        for name in (*placeholders, _PACKAGE):
            sys.modules.pop(name, None)


def register_intrinsics_of(target_kind: str) -> None:
    """Loads what a trace for a GPU may tensorize with; without it no such trace replays."""
    if target_kind == "cuda" and f"{_PACKAGE}.cuda" not in sys.modules:
        with quick_stack():
            import_module(f"{_PACKAGE}.cuda")
