# SPDX-License-Identifier: Apache-2.0
"""The loops around a block as plain data, read off a schedule without leaving a trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import tvm_ffi
from tvm.ir import Call, Op, Var
from tvm.s_tir import SBlock, SBlockRealize, Schedule
from tvm.tirx import For, ForKind, IntImm
from tvm_ffi import WalkResult

REDUCE = 2
"""`IterVar.iter_type` of a reduction."""


@dataclass(frozen=True)
class Loop:
    """One loop of a block's nest."""

    name: str
    """What steps call it; unique within the nest."""
    var: str
    """TVM's name of its variable."""
    extent: int
    """-1 where it is not constant."""
    kind: str
    """What it runs over for this block: `spatial`, `reduce`, `mixed` or `unit`."""
    mode: str
    """`serial`, `parallel`, `vectorized`, `unrolled` or `thread_binding`."""
    sref: Any = field(repr=False)


def realizes(func: Any) -> list[Any]:
    """Every block of a function with its bindings, in program order, without the root.

    Blocks within an `init` are left out: schedules do not know them.
    """
    found: list[Any] = []

    def enter(realize: Any) -> WalkResult:
        found.append(realize)
        tvm_ffi.structural_walk(realize.block.body, [(SBlockRealize, enter)], order="pre")
        return WalkResult.SKIP

    tvm_ffi.structural_walk(func.body, [(SBlockRealize, enter)], order="pre")
    return [one for one in found if one.block.name_hint != "root" or one.block.iter_vars]


def blocks_under(loop: Loop) -> list[Any]:
    """Every block under a loop, in program order."""
    found: list[Any] = []
    tvm_ffi.structural_walk(loop.sref.stmt, [(SBlock, found.append)], order="pre")
    return found


def has_tail(loop: Loop) -> bool:
    """Whether a block under a loop runs for some of the iterations only."""
    found: list[Any] = []
    tvm_ffi.structural_walk(loop.sref.stmt, [(SBlockRealize, found.append)], order="pre")
    return any(not isinstance(one.predicate, IntImm) for one in found)


def reads_under_condition(block: Any) -> bool:
    """Whether a block guards what it reads, as padding does."""
    calls: list[Any] = []
    tvm_ffi.structural_walk(block.body, [(Call, calls.append)], order="pre")
    names = [str(call.op.name) for call in calls if isinstance(call.op, Op)]
    return any(name.rpartition(".")[2] == "if_then_else" for name in names)


def block_names(func: Any) -> list[str]:
    """TVM's names of a function's blocks, in program order."""
    return [str(one.block.name_hint) for one in realizes(func)]


def loops_of(sch: Schedule, block: Any, named: Sequence[tuple[str, Any]] = ()) -> tuple[Loop, ...]:
    """The loops around `block`, a block or its random variable, outermost first.

    `named` are names that loops were given, by their places in the schedule (`StmtSRef`).
    """
    sref = sch.get_sref(block)
    return _loops(sref, _realize(sch, sref.stmt), named)


def loops_around(sch: Schedule, realize: Any) -> tuple[Loop, ...]:
    """`loops_of` a block whose realize, one of the schedule's own, is at hand."""
    return _loops(sch.get_sref(realize.block), realize, ())


def _loops(sref: Any, realize: Any, named: Sequence[tuple[str, Any]]) -> tuple[Loop, ...]:
    kinds = _kinds(realize)
    loops: list[Loop] = []
    taken: set[str] = set()
    for at in _nest(sref):
        loop = at.stmt
        var = str(loop.loop_var.name)
        alias = next((name for name, other in named if other.same_as(at)), None)
        name = _unique(alias or var, taken)
        taken.add(name)
        extent = int(loop.extent) if isinstance(loop.extent, IntImm) else -1
        kind = kinds.get(loop.loop_var, "unit")
        loops.append(Loop(name, var, extent, kind, ForKind(loop.kind).name.lower(), at))
    return tuple(loops)


def _nest(sref: Any) -> list[Any]:
    found = []
    at = sref.parent
    while at is not None and isinstance(at.stmt, For):
        found.append(at)
        at = at.parent
    return found[::-1]


def _realize(sch: Schedule, block: Any) -> Any:
    funcs = [func for _, func in sch.mod.functions_items()]
    everything = (one for func in funcs for one in realizes(func))
    return next((one for one in everything if one.block.same_as(block)), None)


def _kinds(realize: Any) -> dict[Any, str]:
    if realize is None:
        return {}
    kinds: dict[Any, str] = {}
    for iter_var, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
        kind = "reduce" if int(iter_var.iter_type) == REDUCE else "spatial"
        for var in variables(value):
            kinds[var] = kind if kinds.get(var, kind) == kind else "mixed"
    return kinds


def variables(expr: Any) -> list[Any]:
    """The variables that an expression reads."""
    if isinstance(expr, Var):  # Most indices are: no walk.
        return [expr]
    found: list[Any] = []
    tvm_ffi.structural_walk(expr, [(Var, found.append)], order="pre")
    return found


def _unique(name: str, taken: set[str]) -> str:
    number, unique = 0, name
    while unique in taken:
        number += 1
        unique = f"{name}_{number}"
    return unique
