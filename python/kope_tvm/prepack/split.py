# SPDX-License-Identifier: Apache-2.0
"""A scheduled function in two: what depends on constant operands only, and the rest.

A stage that lays weights out anew writes a buffer of its own from a weight alone. Its blocks, with
the loops around them, become a function; the rest takes that buffer as one more input.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.s_tir import SBlock, SBlockRealize

_MOST_GROWTH = 2.0
"""Times the bytes of the weight: unpacked int4 weights would cost more memory than they save."""


@dataclass(frozen=True)
class Split:
    """One function taken apart."""

    pack: tirx.PrimFunc
    """Takes the constants at `sources`, gives what `buffers` are."""
    rest: tirx.PrimFunc
    """Takes the other inputs, then the packed buffers, then gives the outputs."""
    sources: tuple[int, ...]
    """Parameters of the whole that `pack` reads."""
    kept: tuple[int, ...]
    """Inputs of the whole that `rest` still takes."""
    shapes: tuple[tuple[int, ...], ...]
    """Of the packed buffers."""
    dtypes: tuple[str, ...]


def split(func: tirx.PrimFunc, constants: Sequence[int], num_inputs: int) -> Split | None:
    """Take `func` apart, whose first `num_inputs` parameters are inputs; None where nothing is.

    `constants` are positions of inputs that never change.
    """
    root = func.body
    if not isinstance(root, SBlockRealize) or not root.block.alloc_buffers:
        return None
    units = _units(root.block.body)
    packed = _packed(units, root.block, [func.params[i] for i in constants])
    sources = tuple(i for i in constants if any(_is_in(func.params[i], u.reads) for u in packed))
    if not packed or not _is_worth(packed, [func.params[i] for i in sources]):
        return None
    made = _made_by(packed)
    chosen = [unit.block for unit in packed]
    pack_body = _filtered(root.block.body, lambda block: _is_in(block, chosen))
    rest_body = _filtered(root.block.body, lambda block: not _is_in(block, chosen))
    if pack_body is None or rest_body is None:
        return None
    still = [unit for unit in units if not _is_in(unit.block, chosen)]
    kept = tuple(
        i
        for i in range(num_inputs)
        if i not in sources or any(_is_in(func.params[i], unit.reads) for unit in still)
    )
    others = [each for each in root.block.alloc_buffers if not _is_in(each, made)]
    outputs = list(func.params)[num_inputs:]
    return Split(
        pack=_function([*(func.params[i] for i in sources), *made], pack_body, [], func),
        rest=_function([*(func.params[i] for i in kept), *made, *outputs], rest_body, others, func),
        sources=sources,
        kept=kept,
        shapes=tuple(tuple(int(extent) for extent in each.shape) for each in made),
        dtypes=tuple(str(each.dtype) for each in made),
    )


@dataclass(frozen=True)
class _Unit:
    """An outermost block inside the root, with what is read and written in it."""

    block: SBlock
    reads: list[Any] = field(default_factory=list)
    writes: list[Any] = field(default_factory=list)


def _units(body: tirx.Stmt) -> list[_Unit]:
    found: list[_Unit] = []

    def take(block: SBlock) -> bool:
        found.append(_unit(block))
        return True

    _filtered(body, take)
    return found


def _unit(block: SBlock) -> _Unit:
    unit = _Unit(block)
    inner: list[SBlock] = []
    tvm_ffi.structural_walk(block.body, [(SBlock, inner.append)])
    unit.reads.extend(region.source for each in (block, *inner) for region in each.reads)
    unit.writes.extend(region.source for each in (block, *inner) for region in each.writes)
    return unit


def _packed(units: Sequence[_Unit], root: SBlock, constants: Sequence[Any]) -> list[_Unit]:
    """Units that write a buffer of the root's from constants alone, as all its writers do."""
    found: list[_Unit] = []
    for buffer in root.alloc_buffers:
        writers = [unit for unit in units if _is_in(buffer, unit.writes)]
        alone = all(_is_in(each, [buffer]) for unit in writers for each in unit.writes)
        known = all(_is_in(each, constants) for unit in writers for each in unit.reads)
        is_read = any(_is_in(buffer, u.reads) for u in units if u not in writers)
        if writers and alone and known and is_read and any(unit.reads for unit in writers):
            found += writers
    return found


def _made_by(packed: Sequence[_Unit]) -> list[Any]:
    made: list[Any] = []
    for unit in packed:
        made += [each for each in unit.writes if not _is_in(each, made)]
    return made


def _is_worth(packed: Sequence[_Unit], sources: Sequence[Any]) -> bool:
    made = _made_by(packed)
    is_global = all(str(each.scope()) in ("", "global") for each in made)
    return is_global and _num_bytes(made) <= _MOST_GROWTH * _num_bytes(sources)


def _num_bytes(buffers: Sequence[Any]) -> float:
    return sum(
        prod(int(extent) for extent in each.shape) * int(tvm.DataType(str(each.dtype)).bits) / 8
        for each in buffers
    )


def _is_in(var: Any, among: Sequence[Any]) -> bool:
    return any(var.same_as(each) for each in among)


def _filtered(stmt: tirx.Stmt, keeps: Callable[[SBlock], bool]) -> tirx.Stmt | None:
    """The statement without the blocks that are not kept and the loops that then are empty."""
    if isinstance(stmt, SBlockRealize):
        return stmt if keeps(stmt.block) else None
    if isinstance(stmt, tirx.SeqStmt):
        parts = [part for each in stmt.seq if (part := _filtered(each, keeps)) is not None]
        if len(parts) > 1:
            return tirx.SeqStmt(parts)
        return parts[0] if parts else None
    if isinstance(stmt, tirx.For):
        body = _filtered(stmt.body, keeps)
        return None if body is None else _loop(stmt, body)
    return stmt


def _loop(loop: tirx.For, body: tirx.Stmt) -> tirx.For:
    if body.same_as(loop.body):
        return loop
    return tirx.For(
        loop.loop_var,
        loop.min,
        loop.extent,
        loop.kind,
        body,
        loop.thread_binding,
        loop.annotations,
        loop.step,
    )


def _function(
    params: Sequence[Any], body: tirx.Stmt, buffers: Sequence[Any], whole: tirx.PrimFunc
) -> tirx.PrimFunc:
    block = whole.body.block
    root = SBlock([], [], [], block.name_hint, body, None, buffers, None, block.annotations)
    attrs = whole.attrs
    return tirx.PrimFunc(list(params), SBlockRealize([], True, root), whole.ret_type, attrs)
