# SPDX-License-Identifier: Apache-2.0
"""Features of a function worked out in Python: what the C++ must answer."""

from __future__ import annotations

from math import prod
from typing import Any

import tvm
from function_blocks import REDUCE, SPATIAL, Block, Function, Load, Product, Vars, collect, strides
from tvm import ir, tirx

from kope_tvm.task import Features


def features_reference(node: Any) -> Features:
    """The answer of `kope_tvm.features.features`."""
    func = _prim_func(node)
    if func is None:
        return Features()
    params, function = [_describe(var) for var in func.params], collect(func)
    anchor = _anchor(function)
    described = anchor or function.blocks[0]
    return Features(
        op_class=_op_class(function, anchor),
        spatial_extents=tuple(axis.extent for axis in described.axes if axis.kind != REDUCE),
        reduce_extents=tuple(axis.extent for axis in described.axes if axis.kind == REDUCE),
        dtypes=tuple(dtype for dtype, _ in params),
        flops=sum(block.flops for block in function.blocks),
        bytes_moved=float(sum(num_bytes for _, num_bytes in params)),
        num_blocks=len(function.blocks) - 1,
        strides=strides(described),
    )


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


def _anchor(function: Function) -> Block | None:
    """The block that the work is in: of the reductions if there are any, the last of equals."""
    ranked = enumerate(function.blocks[1:])
    best = max(ranked, key=lambda item: (item[1].reduces, item[1].flops, item[0]), default=None)
    return best[1] if best else None


def _op_class(function: Function, anchor: Block | None) -> str:
    if function.loops_on_data or anchor is None:
        return "other"
    if anchor.reduces:
        return _reduction_class(function, anchor)
    kinds = {axis.kind for block in function.blocks for axis in block.axes}
    return "elementwise" if kinds <= {SPATIAL} else "other"


def _reduction_class(function: Function, anchor: Block) -> str:
    spatial, reduce = anchor.vars(SPATIAL), anchor.vars(REDUCE)
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


def _product_class(product: Product, spatial: Vars, reduce: Vars, unit: Vars) -> str:
    if product.square:
        return ""
    lhs, rhs = _all_vars(product.lhs), _all_vars(product.rhs)
    for data, weight_vars in ((product.lhs, rhs), (product.rhs, lhs)):
        if name := _convolution_class(data, weight_vars, (spatial, reduce, unit)):
            return name
    if lhs & reduce and rhs & reduce and len(reduce) >= 3:
        return "conv2d"
    return "matmul" if lhs & reduce and rhs & reduce and lhs & spatial != rhs & spatial else ""


def _convolution_class(data: list[Load], weight_vars: Vars, axes: tuple[Vars, ...]) -> str:
    """A window is an index such as `h * stride + rh`: `h` moves over the data, not the weights."""
    spatial, reduce, unit = axes
    indices = [index for load in data for index in load.index_vars]
    windows = [index for index in indices if index & reduce and (index & spatial) - weight_vars]
    if not windows:
        return ""
    reduces_channel = any(index & (reduce - unit) for index in indices if index not in windows)
    shares_channel = _all_vars(data) & spatial & weight_vars
    return "depthwise" if shares_channel and not reduces_channel else "conv2d"


def _all_vars(loads: list[Load]) -> Vars:
    return frozenset(var for load in loads for index in load.index_vars for var in index)
