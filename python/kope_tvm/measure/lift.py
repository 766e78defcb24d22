# SPDX-License-Identifier: Apache-2.0
"""The untuned function in another form: in float64, and in an order of loops that is quick."""

from __future__ import annotations

import json
from typing import Any

import tvm
import tvm_ffi
from tvm.ir import Call, TensorLoad
from tvm.s_tir import SBlock, Schedule
from tvm.tirx import For, ForKind, IterVar

from kope_tvm.errors import KopeError
from kope_tvm.measure.signature import entry

_WIDENED = ("float16", "bfloat16", "float32", "float8")
_BITWISE = ("tirx.reinterpret", "tirx.call_extern", "tirx.call_pure_extern", "tirx.call_packed")
"""What reads the bits of a number, or is another function."""
_REDUCTION = IterVar.CommReduce


def has_floats(mod: tvm.IRModule) -> bool:
    """Whether anything in it is a float."""
    return any("float" in node["data"]["dtype"] for node in _types(_graph(mod)))


def lifted(mod: tvm.IRModule) -> tvm.IRModule:
    """The module with every float a float64: buffers, literals, casts, intrinsics.

    Every dtype of a module is a node of its graph: changing those changes all, and nothing else.
    Raises KopeError where it reads a float's bits or calls what is not in the module.
    """
    found = _named_calls(mod) & set(_BITWISE)
    if found:
        raise KopeError(f"it calls {', '.join(sorted(found))}")
    graph = _graph(mod)
    for node in _types(graph):
        base, by, lanes = node["data"]["dtype"].partition("x")
        if base.startswith(_WIDENED):
            node["data"]["dtype"] = "float64" + by + lanes
    return tvm.ir.load_json(json.dumps(graph))


def hastened(mod: tvm.IRModule) -> tvm.IRModule:
    """The module with rows innermost and the outermost loop parallel, each sum in its old order.

    Untuned, a matrix product strides down a column: the truth would cost more than the tuning.
    """
    sch = Schedule(mod)
    sch.work_on(entry(mod)[0])
    for name in _blocks(mod):
        block = sch.get_sblock(name)
        loops = sch.get_loops(block)
        order = _order(sch.get(block), len(loops))
        if order:
            sch.reorder(*(loops[at] for at in order))
            sch.parallel(loops[order[0]])
    return sch.mod


def is_parallel(mod: tvm.IRModule) -> bool:
    """Whether any loop runs on several threads."""
    kinds: list[Any] = []
    for _, func in mod.functions_items():
        tvm_ffi.structural_walk(func, (For, lambda loop: kinds.append(loop.kind)))
    return ForKind.PARALLEL in kinds


def has_reduction(mod: tvm.IRModule) -> bool:
    """Whether an output depends on many inputs, or an input's place on another's value."""
    return any(
        axis.iter_type != IterVar.DataPar for block in _sblocks(mod) for axis in block.iter_vars
    )


def _order(block: SBlock, num_loops: int) -> list[int]:
    """Old places of the loops: the last row innermost; empty where that is no gain."""
    axes = block.iter_vars
    kinds = [axis.iter_type for axis in axes]
    spatial = [at for at, kind in enumerate(kinds) if kind == IterVar.DataPar]
    sums = [at for at, kind in enumerate(kinds) if kind == _REDUCTION]
    if block.init is None or not sums or len(spatial) < 2 or len(kinds) != num_loops:
        return []
    if len(spatial) + len(sums) != len(kinds) or not _is_a_row(block, axes[spatial[-1]].var):
        return []
    return [*spatial[:-1], *sums, spatial[-1]]


def _is_a_row(block: SBlock, var: Any) -> bool:
    """Whether neighbours along the axis are neighbours in memory, in all that is read of it."""
    loads: list[Any] = []
    tvm_ffi.structural_walk(block.body, (TensorLoad, loads.append))
    rows = [load for load in loads if any(_uses(index, var) for index in load.indices)]
    return bool(rows) and all(_uses(load.indices[-1], var) for load in rows)


def _uses(index: Any, var: Any) -> bool:
    found: list[Any] = []
    tvm_ffi.structural_walk(index, (type(var), found.append))
    return any(each.same_as(var) for each in found)


def _sblocks(mod: tvm.IRModule) -> list[SBlock]:
    found: list[SBlock] = []
    for _, func in mod.functions_items():
        tvm_ffi.structural_walk(func, (SBlock, found.append))
    return found


def _blocks(mod: tvm.IRModule) -> list[str]:
    return [block.name_hint for block in _sblocks(mod) if block.name_hint != "root"]


def _named_calls(mod: tvm.IRModule) -> set[str]:
    names: set[str] = set()

    def visit(call: Call) -> None:
        names.add(str(getattr(call.op, "name", "")))

    for _, func in mod.functions_items():
        tvm_ffi.structural_walk(func, (Call, visit))
    return names


def _graph(mod: tvm.IRModule) -> dict[str, Any]:
    graph: dict[str, Any] = json.loads(tvm.ir.save_json(mod))
    return graph


def _types(graph: dict[str, Any]) -> list[dict[str, Any]]:
    return [node for node in graph["nodes"] if node["type"] == "ir.PrimType"]
