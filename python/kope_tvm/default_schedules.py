# SPDX-License-Identifier: Apache-2.0
"""TVM's own default schedules for a GPU: without one a function there binds no thread.

What Relax's pipeline for such a target does to a model, done to whatever functions are left.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import tvm_ffi
from tvm import IRModule, tirx
from tvm.s_tir import dlight
from tvm.target import Target
from tvm.tirx import For, ForKind

from kope_tvm.schedule_error import TVM_ERRORS
from kope_tvm.target_kind import is_on_host

_LOG = logging.getLogger("kope_tvm")
_GPU = dlight.gpu
_RULES = (_GPU.Matmul, _GPU.GEMV, _GPU.Reduction, _GPU.GeneralReduction, _GPU.Fallback)
"""In the order of Relax's own pipeline."""


def with_default_schedules(mod: IRModule, target: Target) -> IRModule:
    """The module, its functions that bind no thread scheduled by TVM's first rule that can."""
    if is_on_host(target.kind.name):
        return mod
    bare = {var: func for var, func in mod.functions.items() if _is_bare(func)}
    if not bare:
        return mod
    made = mod.clone()
    for var, func in bare.items():
        made.update_func(var, _scheduled(func, target))
    return made


def with_plain_schedules(mod: IRModule, target: Target) -> IRModule:
    """The same without reductions across threads.

    Those know a reduction by its first value, which for a maximum is another one in float64.
    """
    made = mod.clone()
    for var, func in mod.functions.items():
        made.update_func(var, _scheduled(func, target, (_GPU.Fallback,)))
    return made


def _scheduled(func: tirx.PrimFunc, target: Target, rules: Sequence[Any] = _RULES) -> tirx.PrimFunc:
    """By the first rule that takes it; one that trips over it has lost its turn."""
    for rule in rules:
        try:
            with target:
                made = dlight.ApplyDefaultSchedule(rule())(IRModule({"main": func}))["main"]
        except TVM_ERRORS as error:
            _LOG.debug("%s: %s", rule.__name__, error)
            continue
        if "tirx.is_scheduled" in made.attrs:
            return made
    return func


def _is_bare(func: Any) -> bool:
    if not isinstance(func, tirx.PrimFunc):
        return False
    bound: list[For] = []

    def visit(loop: For) -> None:
        if loop.kind == ForKind.THREAD_BINDING:
            bound.append(loop)

    tvm_ffi.structural_walk(func.body, (For, visit))
    launches: list[Any] = []
    tvm_ffi.structural_walk(func.body, (tirx.AttrStmt, launches.append))
    return not bound and not any(each.attr_key == "thread_extent" for each in launches)
