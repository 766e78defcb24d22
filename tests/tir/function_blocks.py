# SPDX-License-Identifier: Apache-2.0
"""A function's blocks as `features_reference` counts them: axes, loads, products, operations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Any

from tvm import ir, s_tir, tirx
from tvm.sym import detect_linear_equation
from tvm_ffi import WalkResult, structural_equal, structural_walk

_ARITHMETIC = (
    *(tirx.Add, tirx.Sub, tirx.Mul, tirx.Div, tirx.Mod),
    *(tirx.FloorDiv, tirx.FloorMod, tirx.Min, tirx.Max),
)
_FREE_CALLS = frozenset(
    {"if_then_else", "likely", "reinterpret", "address_of", "ret", "max_value", "min_value"}
)
SPATIAL, REDUCE = 0, 2


@dataclass(frozen=True)
class Axis:
    var: Any
    kind: int
    extent: int


Vars = frozenset[Any]


@dataclass(frozen=True)
class Load:
    buffer: Any
    index_vars: tuple[Vars, ...]
    node: Any


@dataclass(frozen=True)
class Product:
    lhs: list[Load]
    rhs: list[Load]
    square: bool


@dataclass
class Block:
    axes: list[Axis] = field(default_factory=list)
    written: set[Any] = field(default_factory=set)
    loads: list[Load] = field(default_factory=list)
    products: list[Product] = field(default_factory=list)
    num_ops: int = 0

    @property
    def reduces(self) -> bool:
        return any(axis.kind == REDUCE for axis in self.axes)

    @property
    def flops(self) -> float:
        """A symbolic extent counts once."""
        return float(self.num_ops * prod(abs(axis.extent) for axis in self.axes))

    def vars(self, kind: int) -> Vars:
        return frozenset(axis.var for axis in self.axes if axis.kind == kind)


@dataclass
class Function:
    blocks: list[Block] = field(default_factory=list)
    loops_on_data: bool = False
    calls: set[str] = field(default_factory=set)


def collect(func: Any) -> Function:
    function = Function()
    body = func.body
    if isinstance(body, s_tir.SBlockRealize) and not body.block.iter_vars:
        _enter(body.block, function)
    else:
        function.blocks.append(Block())
        _statement(body, function.blocks[0], function)
    return function


def _enter(node: Any, function: Function) -> None:
    block = Block(
        axes=[_axis(iter_var) for iter_var in node.iter_vars],
        written={write.source for write in node.writes},
    )
    function.blocks.append(block)
    _statement(node.body, block, function)


def _axis(iter_var: Any) -> Axis:
    extent = iter_var.dom.extent
    constant = int(extent) if isinstance(extent, tirx.IntImm) else -1
    return Axis(iter_var.var, int(iter_var.iter_type), constant)


def _statement(root: Any, block: Block, function: Function) -> None:
    def visit(node: Any) -> WalkResult:
        if isinstance(node, s_tir.SBlock):
            _enter(node, function)
        elif isinstance(node, tirx.BufferStore | tirx.Bind):
            if isinstance(node, tirx.BufferStore):
                block.written.add(node.buffer)
            _value(node.value, block, function)
        elif not isinstance(node, ir.Expr):
            function.loops_on_data |= isinstance(node, tirx.While)
            return WalkResult.ADVANCE
        return WalkResult.SKIP

    structural_walk(root, visit, order="pre")


def _walk_value(expr: Any, on_node: Callable[[Any], None]) -> None:
    """Visit what computes the value: no index, no condition."""

    def visit(node: Any) -> WalkResult:
        if isinstance(node, ir.Var):
            return WalkResult.SKIP
        on_node(node)
        if isinstance(node, tirx.Select):
            chosen = [node.true_value, node.false_value]
        elif isinstance(node, ir.Call) and _call_name(node) == "if_then_else":
            chosen = list(node.args)[1:]
        else:
            return WalkResult.SKIP if isinstance(node, ir.TensorLoad) else WalkResult.ADVANCE
        for value in chosen:
            _walk_value(value, on_node)
        return WalkResult.SKIP

    structural_walk(expr, visit, order="pre")


def _value(expr: Any, block: Block, function: Function) -> None:
    def count(node: Any) -> None:
        block.num_ops += isinstance(node, _ARITHMETIC)
        if isinstance(node, tirx.Mul):
            lhs, rhs = _loads(node.a, block), _loads(node.b, block)
            if lhs and rhs:
                block.products.append(Product(lhs, rhs, structural_equal(node.a, node.b)))
        elif isinstance(node, ir.Call):
            block.num_ops += _call_name(node) not in _FREE_CALLS
            function.calls.add(_call_name(node))

    _walk_value(expr, count)
    block.loads.extend(_loads(expr, block))


def _loads(expr: Any, block: Block) -> list[Load]:
    loads: list[Load] = []

    def visit(node: Any) -> None:
        if isinstance(node, ir.TensorLoad) and node.source not in block.written:
            index_vars = tuple(_vars(index) for index in node.indices)
            loads.append(Load(node.source, index_vars, node))

    _walk_value(expr, visit)
    return loads


def _vars(expr: Any) -> Vars:
    found = set()

    def visit(node: Any) -> WalkResult:
        if not isinstance(node, ir.Var):
            return WalkResult.ADVANCE
        found.add(node)
        return WalkResult.SKIP

    structural_walk(expr, visit, order="pre")
    return frozenset(found)


def strides(block: Block) -> tuple[int, ...]:
    axes = [axis for axis in block.axes if axis.extent != 1] or block.axes
    return tuple(_stride(load.node, axes[-1].var) for load in block.loads) if axes else ()


def _stride(load: Any, var: Any) -> int:
    total, row = 0, 1
    for size, index in zip(reversed(load.source.shape), reversed(load.indices), strict=True):
        steps = _steps(index, var)
        if steps is None or (steps and row < 0):
            return -1
        total += steps * row
        row = row * int(size) if row > 0 and isinstance(size, tirx.IntImm) else -1
    return abs(total)


def _steps(index: Any, var: Any) -> int | None:
    """By how much an index grows with each step of `var`; None where that differs."""
    if var not in _vars(index):
        return 0
    found = detect_linear_equation(index, [var])
    return int(found[0]) if found and isinstance(found[0], tirx.IntImm) else None


def _call_name(call: Any) -> str:
    return str(call.op.name).rpartition(".")[2] if isinstance(call.op, ir.Op) else "call"
