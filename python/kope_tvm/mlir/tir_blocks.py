# SPDX-License-Identifier: Apache-2.0
"""The blocks of an untouched PrimFunc, each with one statement over whole extents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tvm import s_tir, tirx

from kope_tvm.mlir.spelling import UnsayableError, shape_of

_SPATIAL, _REDUCED = 0, 2


@dataclass(frozen=True)
class TirBlock:
    """A block that computes one element of one buffer at a time."""

    name: str
    store: Any
    """Its `BufferStore`, whose indices are iterators, each of them once."""
    start: Any
    """The constant that a reduction starts from; None where nothing is reduced."""
    dims: Mapping[Any, int]
    """The number of each iterator."""
    extents: tuple[int, ...]
    reduced: tuple[int, ...]
    """The numbers of those that are reduced."""


def blocks_of(func: tirx.PrimFunc) -> Iterator[TirBlock]:
    """In program order; raises UnsayableError for whatever else there is."""
    yield from _walk(func.body, {})


def _walk(node: Any, loops: Mapping[Any, int]) -> Iterator[TirBlock]:
    if isinstance(node, tirx.SeqStmt):
        for child in node.seq:
            yield from _walk(child, loops)
    elif isinstance(node, tirx.For):
        yield from _walk(node.body, {**loops, node.loop_var: _number(node.extent)})
    elif isinstance(node, s_tir.SBlockRealize):
        is_root = not node.iter_values and not isinstance(node.block.body, tirx.BufferStore)
        yield from _walk(node.block.body, loops) if is_root else [_block(node, loops)]
    else:
        raise UnsayableError(f"it has a {type(node).__name__} outside of any block")


def _block(realize: Any, loops: Mapping[Any, int]) -> TirBlock:
    block = realize.block
    name = str(block.name_hint)
    try:
        extents = tuple(_number(it.dom.extent) for it in block.iter_vars)
        _check_loops(realize, extents, loops)
        kinds = [int(it.iter_type) for it in block.iter_vars]
        reduced = tuple(at for at, kind in enumerate(kinds) if kind == _REDUCED)
        dims = {it.var: at for at, it in enumerate(block.iter_vars)}
        if not set(kinds) <= {_SPATIAL, _REDUCED}:
            raise UnsayableError("its iterators depend on each other")
        found = TirBlock(name, _store(block), _start(block, reduced), dims, extents, reduced)
        _check_output(found)
    except UnsayableError as error:
        raise UnsayableError(f"{name}: {error}") from error
    return found


def _check_loops(realize: Any, extents: tuple[int, ...], loops: Mapping[Any, int]) -> None:
    """Each iterator is a loop of its own and runs as far."""
    values = list(realize.iter_values)
    moving = [each for each in values if isinstance(each, tirx.Var)]
    is_whole = all(
        loops.get(value) == extent if isinstance(value, tirx.Var) else extent == 1
        for value, extent in zip(values, extents, strict=True)
    )
    is_always = isinstance(realize.predicate, tirx.IntImm) and bool(int(realize.predicate))
    if not is_whole or len({hash(each) for each in moving}) != len(moving) or not is_always:
        raise UnsayableError("its loops are scheduled already")


def _store(block: Any) -> Any:
    if not isinstance(block.body, tirx.BufferStore):
        kind = type(block.body).__name__
        raise UnsayableError(f"it is a {kind}; an operation stores one element at a time")
    return block.body


def _start(block: Any, reduced: tuple[int, ...]) -> Any:
    if block.init is None:
        if reduced:
            raise UnsayableError("a reduction that does not say what it starts from")
        return None
    value = getattr(block.init, "value", None)
    if not isinstance(value, tirx.FloatImm | tirx.IntImm):
        raise UnsayableError("its reduction starts from what is no constant")
    return value


def _check_output(block: TirBlock) -> None:
    """Every element is written, and once."""
    indices = list(block.store.indices)
    spatial = [var for var, at in block.dims.items() if at not in block.reduced]
    is_each = {hash(each) for each in indices} == {hash(var) for var in spatial}
    if len(indices) != len(spatial) or not is_each:
        raise UnsayableError(f"it writes {block.store.buffer.name} not element by element")
    extents = tuple(block.extents[block.dims[var]] for var in indices)
    if extents != shape_of(block.store.buffer):
        raise UnsayableError(f"it writes a part of {block.store.buffer.name}")


def _number(extent: Any) -> int:
    if not isinstance(extent, tirx.IntImm):
        raise UnsayableError(f"the extent {extent} is not known")
    return int(extent)
