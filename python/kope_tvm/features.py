# SPDX-License-Identifier: Apache-2.0
"""Features of a function: `features` asks the C++, `features_reference` is what it must answer.

The reference is the specification in Python that the tests hold the C++ against.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Any

import tvm
from tvm import ir, s_tir, tirx
from tvm.sym import detect_linear_equation
from tvm_ffi import WalkResult, structural_equal, structural_walk

from kope_tvm.task import Features

_ARITHMETIC = (
    *(tirx.Add, tirx.Sub, tirx.Mul, tirx.Div, tirx.Mod),
    *(tirx.FloorDiv, tirx.FloorMod, tirx.Min, tirx.Max),
)
_FREE_CALLS = frozenset(
    {"if_then_else", "likely", "reinterpret", "address_of", "ret", "max_value", "min_value"}
)
_SPATIAL, _REDUCE = 0, 2


def features(node: Any) -> Features:
    """Features of a PrimFunc, or of an IRModule's `main` (else its first PrimFunc by name)."""
    from kope_tvm import _ffi_api  # late: only a call needs the library

    op_class, spatial, reduce, dtypes, *counts, strides = _ffi_api.features(node)
    flops, bytes_moved, num_blocks = counts
    return Features(
        str(op_class),
        tuple(int(extent) for extent in spatial),
        tuple(int(extent) for extent in reduce),
        tuple(str(dtype) for dtype in dtypes),
        float(flops),
        float(bytes_moved),
        int(num_blocks),
        tuple(int(stride) for stride in strides),
    )


def features_reference(node: Any) -> Features:
    """The answer of `features`, worked out in Python."""
    func = _prim_func(node)
    if func is None:
        return Features()
    params, function = [_describe(var) for var in func.params], _collect(func)
    anchor = _anchor(function)
    described = anchor or function.blocks[0]
    return Features(
        op_class=_op_class(function, anchor),
        spatial_extents=tuple(axis.extent for axis in described.axes if axis.kind != _REDUCE),
        reduce_extents=tuple(axis.extent for axis in described.axes if axis.kind == _REDUCE),
        dtypes=tuple(dtype for dtype, _ in params),
        flops=sum(block.flops for block in function.blocks),
        bytes_moved=float(sum(num_bytes for _, num_bytes in params)),
        num_blocks=len(function.blocks) - 1,
        strides=_strides(described),
    )


@dataclass(frozen=True)
class _Axis:
    var: Any
    kind: int
    extent: int


_Vars = frozenset[Any]


@dataclass(frozen=True)
class _Load:
    buffer: Any
    index_vars: tuple[_Vars, ...]
    node: Any


@dataclass(frozen=True)
class _Product:
    lhs: list[_Load]
    rhs: list[_Load]
    square: bool


@dataclass
class _Block:
    axes: list[_Axis] = field(default_factory=list)
    written: set[Any] = field(default_factory=set)
    loads: list[_Load] = field(default_factory=list)
    products: list[_Product] = field(default_factory=list)
    num_ops: int = 0

    @property
    def reduces(self) -> bool:
        return any(axis.kind == _REDUCE for axis in self.axes)

    @property
    def flops(self) -> float:
        """A symbolic extent counts once."""
        return float(self.num_ops * prod(abs(axis.extent) for axis in self.axes))

    def vars(self, kind: int) -> _Vars:
        return frozenset(axis.var for axis in self.axes if axis.kind == kind)


@dataclass
class _Function:
    blocks: list[_Block] = field(default_factory=list)
    loops_on_data: bool = False
    calls: set[str] = field(default_factory=set)


def _prim_func(node: Any) -> Any | None:
    if isinstance(node, tirx.PrimFunc):
        return node
    entries = node.functions.items() if isinstance(node, tvm.IRModule) else ()
    functions = {var.name_hint: func for var, func in entries}
    found = {name: func for name, func in functions.items() if isinstance(func, tirx.PrimFunc)}
    return found.get("main", found[min(found)]) if found else None


def _describe(var: Any) -> tuple[str, int]:
    if isinstance(var.ty, ir.PrimType):
        return str(var.ty.dtype), _num_bytes(var.ty.dtype, 1)
    if not tirx.buffer.is_buffer_var(var):
        return "handle", 0
    num_elements = prod(int(dim) if isinstance(dim, tirx.IntImm) else 1 for dim in var.shape)
    return str(var.dtype), _num_bytes(var.dtype, num_elements)


def _num_bytes(dtype: Any, num_elements: int) -> int:
    return int(num_elements * dtype.bits * dtype.lanes + 7) // 8


def _collect(func: Any) -> _Function:
    function = _Function()
    body = func.body
    if isinstance(body, s_tir.SBlockRealize) and not body.block.iter_vars:
        _enter(body.block, function)
    else:
        function.blocks.append(_Block())
        _statement(body, function.blocks[0], function)
    return function


def _enter(node: Any, function: _Function) -> None:
    block = _Block(
        axes=[_axis(iter_var) for iter_var in node.iter_vars],
        written={write.source for write in node.writes},
    )
    function.blocks.append(block)
    _statement(node.body, block, function)


def _axis(iter_var: Any) -> _Axis:
    extent = iter_var.dom.extent
    constant = int(extent) if isinstance(extent, tirx.IntImm) else -1
    return _Axis(iter_var.var, int(iter_var.iter_type), constant)


def _statement(root: Any, block: _Block, function: _Function) -> None:
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


def _value(expr: Any, block: _Block, function: _Function) -> None:
    def count(node: Any) -> None:
        block.num_ops += isinstance(node, _ARITHMETIC)
        if isinstance(node, tirx.Mul):
            lhs, rhs = _loads(node.a, block), _loads(node.b, block)
            if lhs and rhs:
                block.products.append(_Product(lhs, rhs, structural_equal(node.a, node.b)))
        elif isinstance(node, ir.Call):
            block.num_ops += _call_name(node) not in _FREE_CALLS
            function.calls.add(_call_name(node))

    _walk_value(expr, count)
    block.loads.extend(_loads(expr, block))


def _loads(expr: Any, block: _Block) -> list[_Load]:
    loads: list[_Load] = []

    def visit(node: Any) -> None:
        if isinstance(node, ir.TensorLoad) and node.source not in block.written:
            index_vars = tuple(_vars(index) for index in node.indices)
            loads.append(_Load(node.source, index_vars, node))

    _walk_value(expr, visit)
    return loads


def _vars(expr: Any) -> _Vars:
    found = set()

    def visit(node: Any) -> WalkResult:
        if not isinstance(node, ir.Var):
            return WalkResult.ADVANCE
        found.add(node)
        return WalkResult.SKIP

    structural_walk(expr, visit, order="pre")
    return frozenset(found)


def _strides(block: _Block) -> tuple[int, ...]:
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


def _anchor(function: _Function) -> _Block | None:
    """The block that the work is in: of the reductions if there are any, the last of equals."""
    ranked = enumerate(function.blocks[1:])
    best = max(ranked, key=lambda item: (item[1].reduces, item[1].flops, item[0]), default=None)
    return best[1] if best else None


def _op_class(function: _Function, anchor: _Block | None) -> str:
    if function.loops_on_data or anchor is None:
        return "other"
    if anchor.reduces:
        return _reduction_class(function, anchor)
    kinds = {axis.kind for block in function.blocks for axis in block.axes}
    return "elementwise" if kinds <= {_SPATIAL} else "other"


def _reduction_class(function: _Function, anchor: _Block) -> str:
    spatial, reduce = anchor.vars(_SPATIAL), anchor.vars(_REDUCE)
    unit = frozenset(axis.var for axis in anchor.axes if axis.extent == 1)
    for product in anchor.products:
        if name := _product_class(product, spatial, reduce, unit):
            return name
    if sum(block.reduces for block in function.blocks) >= 2 and "exp" in function.calls:
        return "softmax"
    indices = [index for load in anchor.loads for index in load.index_vars]
    if any(index & reduce and index & spatial for index in indices):
        return "pool"
    squares = any(product.square for block in function.blocks for product in block.products)
    is_norm = {"sqrt", "rsqrt"} & function.calls and (squares or "pow" in function.calls)
    return "norm" if is_norm else "reduce"


def _product_class(product: _Product, spatial: _Vars, reduce: _Vars, unit: _Vars) -> str:
    if product.square:
        return ""
    lhs, rhs = _all_vars(product.lhs), _all_vars(product.rhs)
    for data, weight_vars in ((product.lhs, rhs), (product.rhs, lhs)):
        if name := _convolution_class(data, weight_vars, (spatial, reduce, unit)):
            return name
    if lhs & reduce and rhs & reduce and len(reduce) >= 3:
        return "conv2d"
    return "matmul" if lhs & reduce and rhs & reduce and lhs & spatial != rhs & spatial else ""


def _convolution_class(data: list[_Load], weight_vars: _Vars, axes: tuple[_Vars, ...]) -> str:
    """A window is an index such as `h * stride + rh`: `h` moves over the data, not the weights."""
    spatial, reduce, unit = axes
    indices = [index for load in data for index in load.index_vars]
    windows = [index for index in indices if index & reduce and (index & spatial) - weight_vars]
    if not windows:
        return ""
    reduces_channel = any(index & (reduce - unit) for index in indices if index not in windows)
    shares_channel = _all_vars(data) & spatial & weight_vars
    return "depthwise" if shares_channel and not reduces_channel else "conv2d"


def _all_vars(loads: list[_Load]) -> _Vars:
    return frozenset(var for load in loads for index in load.index_vars for var in index)
