# SPDX-License-Identifier: Apache-2.0
"""The passes over a function's text, in Python: what the C++ has to answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import Any

import tvm_ffi
from tvm import ir, s_tir, tirx
from tvm_ffi import WalkResult, structural_walk

from kope_tvm.static_checks import Amounts, InputBranch, LoopNode, UndeclaredUse

_STEPS = (tirx.Add, tirx.Sub, tirx.Mul, tirx.Div, tirx.Mod, tirx.FloorDiv, tirx.FloorMod)
_COMPARISONS = (tirx.EQ, tirx.NE, tirx.LT, tirx.LE, tirx.GT, tirx.GE)
_PASSING_ON = {"prim.if_then_else", "tirx.reinterpret", "tirx.likely"}
_INSTRUCTIONS = {"tirx.call_llvm_pure_intrin", "tirx.call_llvm_intrin"}
_KINDS = ("serial", "parallel", "vectorized", "unrolled", "thread_binding")


def calls(func: Any) -> frozenset[str]:
    found = set()
    for node in (each for each in _nodes(func.body) if isinstance(each, ir.Call)):
        name = str(node.op.name)
        foreign = name.startswith("tirx.call_") or "call_packed" in name
        named = getattr(node.args[0], "value", None) if foreign and len(node.args) else None
        found.add(name if named is None else f"{name}:{named}")
    return frozenset(found)


def addresses(func: Any) -> frozenset[str]:
    found = set()
    for node in _nodes(func.body):
        if isinstance(node, tirx.DeclBuffer):
            found.add("tirx.DeclBuffer")
        elif isinstance(node, ir.Call) and any(map(_is_address, [node, *node.args])):
            found.add(str(node.op.name))
        elif isinstance(node, _COMPARISONS) and (_is_address(node.a) or _is_address(node.b)):
            found.add(f"prim.{type(node).__name__}")
    return frozenset(found)


def dtypes(func: Any) -> frozenset[str]:
    found = set()
    for statement, value in _values(func.body):
        inner = list(_value_nodes(value))
        own = getattr(statement, "buffer", None)
        loads_own = any(isinstance(one, ir.TensorLoad) and one.source.same_as(own) for one in inner)
        if loads_own and any(isinstance(one, tirx.Add | tirx.Sub) for one in inner):
            found.add(f"accumulate {_scalar(value)}")
        for node in inner:
            if isinstance(node, tirx.Cast):
                found.add(f"cast {_scalar(node.value)} {_scalar(node)}")
            elif _computes(node) and not (_is_exact_product(node) or _is_address(node)):
                found.add(f"compute {_scalar(node)}")
    return frozenset(found)


def literals(func: Any) -> int:
    values = [node for _, value in _values(func.body) for node in _value_nodes(value)]
    integers = {int(one.value) for one in values if isinstance(one, tirx.IntImm)}
    floats = {str(float(one.value)) for one in values if isinstance(one, tirx.FloatImm)}
    return len(integers) + len(floats)


def input_branches(func: Any) -> frozenset[InputBranch]:
    sources = {
        param: {place}
        for place, param in enumerate(func.params)
        if tirx.buffer.is_buffer_var(param)
    }
    decisions: list[tuple[str, set[Any]]] = []
    flows: list[tuple[Any, set[Any]]] = []
    for node in _nodes(func.body):
        for decision in _decisions(node):
            decisions.append((type(node).__tvm_ffi_type_info__.type_key, _vars(decision)))
        flows.extend(_flows(node))
    changed = True
    while changed:
        before = sum(map(len, sources.values()))
        for target, used in flows:
            sources.setdefault(target, set()).update(*(sources.get(one, ()) for one in used))
        changed = sum(map(len, sources.values())) != before
    return frozenset(
        InputBranch(statement, place)
        for statement, used in decisions
        for one in used
        for place in sources.get(one, ())
    )


def annotation_keys(func: Any) -> frozenset[str]:
    found: set[str] = set()
    for node in _nodes(func.body):
        if isinstance(node, tirx.For | s_tir.SBlock):
            found.update(map(str, node.annotations))
        elif isinstance(node, tirx.AttrStmt):
            found.add(str(node.attr_key))
    return frozenset(found)


def undeclared_uses(func: Any) -> tuple[UndeclaredUse, ...]:
    found: set[UndeclaredUse] = set()
    _used(func.body, found)
    return tuple(sorted(found, key=lambda one: (one.block, one.buffer)))


def _used(root: Any, found: set[UndeclaredUse]) -> tuple[set[Any], set[Any]]:
    """Buffers that are loaded and stored; what blocks do not declare goes to `found`."""
    loaded, stored = set(), set()
    for node in _nodes(root, lambda node: not isinstance(node, s_tir.SBlock)):
        if isinstance(node, s_tir.SBlock):
            inner = _used_by_block(node, found)
            loaded |= inner[0]
            stored |= inner[1]
        elif isinstance(node, tirx.BufferStore):
            stored.add(node.buffer)
        elif isinstance(node, ir.TensorLoad):
            loaded.add(node.source)
    return loaded, stored


def _used_by_block(block: Any, found: set[UndeclaredUse]) -> tuple[set[Any], set[Any]]:
    parts = [_used(part, found) for part in (block.body, block.init) if part is not None]
    own = set(block.alloc_buffers)
    views = {match.buffer: match.source.source for match in block.match_buffers}
    loaded, stored = (
        {views.get(one, one) for part in parts for one in part[kind]} - own for kind in (0, 1)
    )
    if block.iter_vars:
        writes = {region.source for region in block.writes}
        reads = writes | {region.source for region in block.reads}
        undeclared = (stored - writes) | (loaded - reads)
        found.update(UndeclaredUse(str(block.name_hint), str(one.name)) for one in undeclared)
    return loaded, stored


def temporary_bytes(func: Any) -> float:
    total = 0.0
    for block in (node for node in _nodes(func.body) if isinstance(node, s_tir.SBlock)):
        for buffer in block.alloc_buffers:
            total += prod(int(extent) for extent in buffer.shape) * buffer.dtype.bits / 8
    return total


def amounts(func: Any) -> Amounts:
    flops = loaded = stored = 0.0
    for times, statement, value in _repeated_values(func.body, 1.0):
        if isinstance(statement, tirx.BufferStore):
            stored += times * _num_bytes(value)
        for node in _value_nodes(value):
            flops += times * _flops(node)
            if isinstance(node, ir.TensorLoad):
                loaded += times * _num_bytes(node)
    return Amounts(flops, loaded, stored)


def loop_tree(func: Any) -> tuple[LoopNode, ...]:
    return tuple(_tree(func.body, 0))


def _tree(root: Any, depth: int) -> Iterator[LoopNode]:
    for node in _outermost(root, tirx.For, s_tir.SBlock):
        if isinstance(node, tirx.For):
            extent = int(node.extent) if isinstance(node.extent, tirx.IntImm) else -1
            yield LoopNode(depth, _KINDS[int(node.kind)], str(node.loop_var.name), extent)
        else:
            yield LoopNode(depth, "block", str(node.name_hint), -1)
        yield from _tree(node.body, depth + 1)


def _nodes(root: Any, into: Callable[[Any], bool] = lambda node: True) -> Iterator[Any]:
    found: list[Any] = []

    def visit(node: Any) -> WalkResult:
        found.append(node)
        goes_on = into(node) and not isinstance(node, ir.Var)
        return WalkResult.ADVANCE if goes_on else WalkResult.SKIP

    structural_walk(root, visit, order="pre")
    return iter(found)


def _outermost(root: Any, *kinds: type) -> Iterator[Any]:
    nodes = _nodes(root, lambda node: not isinstance(node, (*kinds, ir.Expr)))
    return (node for node in nodes if isinstance(node, kinds))


def _values(root: Any) -> Iterator[tuple[Any, Any]]:
    for node in _outermost(root, tirx.BufferStore, tirx.Bind, tirx.Evaluate):
        yield node, node.value


def _repeated_values(root: Any, times: float) -> Iterator[tuple[float, Any, Any]]:
    kinds = (tirx.For, s_tir.SBlock, tirx.BufferStore, tirx.Bind, tirx.Evaluate)
    for node in _outermost(root, *kinds):
        if isinstance(node, tirx.For):
            extent = int(node.extent) if isinstance(node.extent, tirx.IntImm) else 1
            yield from _repeated_values(node.body, times * extent)
        elif isinstance(node, s_tir.SBlock):
            yield from _repeated_values(node.body, times)
        else:
            yield times, node, node.value


def _value_nodes(expr: Any) -> Iterator[Any]:
    """Of the value itself: no index, no condition."""
    if isinstance(expr, ir.Var):
        return
    yield expr
    for operand in _operands(expr):
        yield from _value_nodes(operand)


def _operands(expr: Any) -> list[Any]:
    if isinstance(expr, ir.TensorLoad):
        return []
    if isinstance(expr, tirx.Select):
        return [expr.true_value, expr.false_value]
    if isinstance(expr, ir.Call):
        args = list(expr.args)
        return args[1:] if str(expr.op.name) == "prim.if_then_else" else args
    if isinstance(expr, tirx.Ramp):
        return [expr.base, expr.stride, expr.lanes]
    if isinstance(expr, tirx.Broadcast):
        return [expr.value, expr.lanes]
    if isinstance(expr, tirx.Shuffle):
        return [*expr.vectors, *expr.indices]
    found = [getattr(expr, name, None) for name in ("a", "b", "value")]
    return [one for one in found if isinstance(one, ir.Expr)]


def _computes(node: Any) -> bool:
    called = isinstance(node, ir.Call) and str(node.op.name) not in _PASSING_ON
    return isinstance(node, _STEPS) or called


def _flops(node: Any) -> float:
    if isinstance(node, ir.Call) and str(node.op.name) in _INSTRUCTIONS:
        return 2.0 * max(map(_lanes, [node, *node.args]))
    if _computes(node) or isinstance(node, tirx.Min | tirx.Max):
        return float(_lanes(node))
    return 0.0


def _is_exact_product(node: Any) -> bool:
    if not isinstance(node, tirx.Mul) or "int" not in str(node.ty.dtype):
        return False
    factors = [one.value for one in (node.a, node.b) if isinstance(one, tirx.Cast)]
    bits = [_dtype(one).bits for one in factors if "int" in str(_dtype(one))]
    return len(bits) == 2 and sum(bits) <= node.ty.dtype.bits


def _decisions(node: Any) -> list[Any]:
    if isinstance(node, tirx.IfThenElse | tirx.While):
        return [node.condition]
    if isinstance(node, tirx.For):
        return [node.min, node.extent]
    return [node.predicate] if isinstance(node, s_tir.SBlockRealize) else []


def _flows(node: Any) -> list[tuple[Any, set[Any]]]:
    if isinstance(node, tirx.BufferStore):
        return [(node.buffer, _vars(node.value))]
    if isinstance(node, tirx.Bind):
        return [(node.var, _vars(node.value))]
    if isinstance(node, s_tir.SBlockRealize):
        pairs = zip(node.block.iter_vars, node.iter_values, strict=True)
        return [(axis.var, _vars(value)) for axis, value in pairs]
    if isinstance(node, s_tir.MatchBufferRegion):
        return [(node.buffer, {node.source.source}), (node.source.source, {node.buffer})]
    return []


def _vars(expr: Any) -> set[Any]:
    return {node for node in _nodes(expr) if isinstance(node, ir.Var)}


def _dtype(expr: Any) -> Any:
    return getattr(getattr(expr, "ty", None), "dtype", None)


def _lanes(expr: Any) -> int:
    dtype = _dtype(expr)
    return int(dtype.lanes) if dtype else 1


def _scalar(expr: Any) -> str:
    dtype = _dtype(expr)
    return str(tvm_ffi.dtype(dtype).with_lanes(1)) if dtype else "handle"


def _num_bytes(expr: Any) -> float:
    return float(_dtype(expr).bits * _dtype(expr).lanes / 8)


def _is_address(expr: Any) -> bool:
    return isinstance(getattr(expr, "ty", None), ir.PointerType)
