# SPDX-License-Identifier: Apache-2.0
"""Reads of a padded image's constant border become the constant, where loops say that they are.

A block that pads writes `x if condition else constant`. Where the loops that a reader's index comes
from are all unrolled, the condition is known of each copy of its body; said to TVM, a product with
a row of zeros is gone. Of a 5x5 convolution of an image of two rows that is 6 products in 10. Zero
times a weight that is infinite or no number goes with them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import IRModule, ir, tirx
from tvm.s_tir import SBlock, SBlockRealize
from tvm.tirx import BufferStore, For, ForKind, IntImm, PrimFunc

from kope_tvm.buffer_address import given
from kope_tvm.plan.nest import variables


@dataclass(frozen=True)
class _Padding:
    """What a buffer's only writer stores."""

    store: Any
    conditions: tuple[Any, ...]
    """All of which hold inside."""
    border: Any
    """The constant outside."""

    def told_of(self, load: Any, known: Set[Any]) -> Any:
        """The load, guarded by those conditions that hang on known iterators only."""
        places = dict(zip(self.store.indices, load.indices, strict=True))
        sure = {
            var
            for var, place in places.items()
            if place.ty == var.ty and set(variables(place)) <= known and not _calls(place)
        }
        guards = [
            _with(condition, places)
            for condition in self.conditions
            if set(variables(condition)) <= sure
        ]
        return tirx.if_then_else(tirx.all(*guards), load, self.border) if guards else load


def with_known_padding(mod: IRModule) -> IRModule:
    """The module, each of its functions telling TVM where it reads padding."""
    made = mod.clone()
    for var, func in mod.functions.items():
        if isinstance(func, PrimFunc):
            made.update_func(var, _told(func))
    return made


def _told(func: PrimFunc) -> PrimFunc:
    realizes: list[Any] = []
    tvm_ffi.structural_walk(func.body, [(SBlockRealize, realizes.append)], order="pre")
    paddings = _paddings(func, [one.block for one in realizes])
    if not paddings:
        return func
    unrolled = _unrolled(func)
    told = {one.block: _told_block(one, paddings, unrolled) for one in realizes}
    body = tvm_ffi.structural_map(func.body, [(SBlock, lambda block: told.get(block, block))])
    return func.with_body(body)


def _paddings(func: PrimFunc, blocks: Sequence[Any]) -> dict[Any, _Padding]:
    """By the padded buffer, of a function's own that one store fills and nothing else can."""
    stores: list[Any] = []
    tvm_ffi.structural_walk(func.body, [(BufferStore, stores.append)], order="pre")
    times = Counter(store.buffer for store in stores)
    own = {buffer for block in blocks for buffer in block.alloc_buffers if times[buffer] == 1}
    found = {one.store.buffer: one for store in stores for one in _padding(store)}
    found = {buffer: one for buffer, one in found.items() if buffer in own}
    if not found:
        return {}
    named_twice = {view.source.source for block in blocks for view in block.match_buffers}
    hidden = named_twice | given(func.body).keys()
    return {buffer: one for buffer, one in found.items() if buffer not in hidden}


def _padding(store: Any) -> Iterator[_Padding]:
    """Of a store of padding."""
    choice = store.value
    if _is_choice(choice):
        condition, _, border = choice.args
        if isinstance(border, tirx.FloatImm | IntImm):
            yield _Padding(store, tuple(_parts(condition)), border)


def _is_choice(expr: Any) -> bool:
    return (
        isinstance(expr, ir.Call)
        and isinstance(expr.op, ir.Op)
        and str(expr.op.name).endswith("if_then_else")
    )


def _parts(condition: Any) -> Iterator[Any]:
    """What a conjunction consists of, less what calls something: that may not be the same twice."""
    if isinstance(condition, tirx.And):
        yield from _parts(condition.a)
        yield from _parts(condition.b)
    elif not _calls(condition):
        yield condition


def _calls(expr: Any) -> bool:
    """Whether it asks something outside of TVM's own arithmetic."""
    calls: list[Any] = []
    tvm_ffi.structural_walk(expr, [(ir.Call, calls.append)], order="pre")
    return bool(calls)


def _unrolled(func: PrimFunc) -> set[Any]:
    """Variables of loops whose bodies are copied, or run once."""
    loops: list[Any] = []
    tvm_ffi.structural_walk(func.body, [(For, loops.append)], order="pre")
    return {loop.loop_var for loop in loops if _is_copied(loop)}


def _is_copied(loop: Any) -> bool:
    is_one = isinstance(loop.extent, IntImm) and int(loop.extent) == 1
    return is_one or loop.kind == ForKind.UNROLLED


def _told_block(realize: Any, paddings: Mapping[Any, _Padding], unrolled: Set[Any]) -> Any:
    block = realize.block
    if not any(region.source in paddings for region in block.reads):
        return block
    bound = zip(block.iter_vars, realize.iter_values, strict=True)
    known = {one.var for one, value in bound if set(variables(value)) <= unrolled}

    def told(load: Any) -> Any:
        padding = paddings.get(load.source)
        return padding.told_of(load, known) if padding else load

    body = tvm_ffi.structural_map(block.body, [(ir.TensorLoad, told)])
    return SBlock(
        block.iter_vars, block.reads, block.writes, block.name_hint, body, block.init,
        block.alloc_buffers, block.match_buffers, block.annotations,
    )  # fmt: skip


def _with(condition: Any, places: Mapping[Any, Any]) -> Any:
    """The condition of other variables."""
    return tvm_ffi.structural_map(condition, [(ir.Var, lambda var: places.get(var, var))])
