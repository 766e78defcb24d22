# SPDX-License-Identifier: Apache-2.0
"""The functions of a model that can be tuned, and why the others cannot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import tvm_ffi
from tvm import IRModule, s_tir, tirx
from tvm.s_tir import meta_schedule as ms
from tvm.target import Target
from tvm.tirx.buffer import BufferType

if TYPE_CHECKING:
    from kope_tvm.model import Model
    from kope_tvm.target import TargetSpec


class Tunable(NamedTuple):
    """One function to tune."""

    name: str
    mod: IRModule
    """Its function is `main`."""
    weight: float
    """How often the model calls it."""


@dataclass(frozen=True)
class Refused:
    """A function that is compiled as it is."""

    name: str
    reason: str


def extract_tasks(model: Model, target: TargetSpec) -> list[Tunable]:
    """Return the distinct functions to tune; `refused_functions` names the others."""
    return [each for each in _all_functions(model, target) if not _why_not(each.mod["main"])]


def refused_functions(model: Model, target: TargetSpec) -> tuple[Refused, ...]:
    """Return the functions that no schedule search can take, each with its reason."""
    reasons = ((each.name, _why_not(each.mod["main"])) for each in _all_functions(model, target))
    return tuple(Refused(name, reason) for name, reason in reasons if reason)


def as_task_module(func: tirx.PrimFunc) -> IRModule:
    """Return the function alone and as `main`: what the database knows it by."""
    return IRModule({"main": func.with_attr("global_symbol", "main")})


def written_params(func: tirx.PrimFunc) -> tuple[int, ...]:
    """Return the positions of the parameters that the body stores to."""
    stored: list[tirx.Var] = []
    tvm_ffi.structural_walk(
        func.body, [(tirx.BufferStore, lambda store: stored.append(store.buffer))], order="pre"
    )
    return tuple(
        i for i, param in enumerate(func.params) if any(param.same_as(each) for each in stored)
    )


def _all_functions(model: Model, target: TargetSpec) -> list[Tunable]:
    if not model.is_relax:
        named = sorted((var.name_hint, func) for var, func in model.mod.functions.items())
        if model.kind == "operator":
            named = [(model.name.split(":")[1], func) for _, func in named]
        return [Tunable(name, as_task_module(func), 1.0) for name, func in named]
    found = ms.relax_integration.extract_tasks(model.mod, Target(dict(target.tvm_target)))
    return [Tunable(str(each.task_name), each.dispatched[0], float(each.weight)) for each in found]


def _why_not(func: tirx.PrimFunc) -> str:
    """Return the reason for which a function is not tunable; empty where it is."""
    for param in func.params:
        if not isinstance(param.ty, BufferType):
            return f"parameter {param.name!r} is a scalar: not tunable, kept as compiled"
        if not all(isinstance(extent, tirx.IntImm) for extent in param.shape):
            return f"the shape of {param.name!r} is symbolic: not tunable, kept as compiled"
        if any(int(extent) == 0 for extent in param.shape):
            return f"{param.name!r} has no elements: nothing to tune, kept as compiled"
    if "tirx.is_scheduled" in func.attrs:
        return "already scheduled: kept as it is"
    return _why_not_body(func)


def _why_not_body(func: tirx.PrimFunc) -> str:
    blocks: list[str] = []
    loops: list[tirx.While] = []
    tvm_ffi.structural_walk(
        func.body,
        [
            (s_tir.SBlock, lambda block: blocks.append(block.name_hint)),
            (tirx.While, loops.append),
        ],
        order="pre",
    )
    if loops:
        return "has a while loop: not tunable, kept as compiled"
    if set(blocks) <= {"root"}:
        return "has no blocks to schedule: not tunable, kept as compiled"
    return ""
