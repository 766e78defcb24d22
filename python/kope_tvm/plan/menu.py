# SPDX-License-Identifier: Apache-2.0
"""What could be done to a schedule, a line a move, for a prompt."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from tvm.s_tir import Schedule
from tvm.tirx import Add, IntImm

from kope_tvm.plan.nest import Loop, loops_around, realizes, variables
from kope_tvm.plan.primitives.marks import MOST_LANES, MOST_UNROLLED
from kope_tvm.schedule_error import TVM_ERRORS
from kope_tvm.space import divisors

_WIDTH = 80
_PACKED = 16
"""Lanes of a packed layout; the widest vector of float32 that our targets have."""


@dataclass(frozen=True)
class Move:
    """One line of the menu."""

    text: str
    mechanism: str
    """As of `Primitive.mechanism`."""


@dataclass(frozen=True)
class _Block:
    realize: Any
    loops: tuple[Loop, ...]
    is_output: bool

    @property
    def stmt(self) -> Any:
        return self.realize.block

    @property
    def name(self) -> str:
        return str(self.stmt.name_hint)

    @property
    def reduces(self) -> bool:
        return self.stmt.init is not None

    def named(self, *kinds: str) -> list[str]:
        return [loop.name for loop in self.loops if loop.kind in kinds and loop.extent != 1]


def legal_moves(sch: Schedule) -> tuple[Move, ...]:
    """The moves open to each block, in program order; at most 80 characters a line."""
    blocks = _blocks(sch)
    moves = [move for block in blocks for part in _PARTS for move in part(block)]
    moves += _inlining(sch, blocks)
    moves += _placing(blocks)
    return tuple(Move(_filled("", move.text.split(" ")), move.mechanism) for move in moves)


def _blocks(sch: Schedule) -> list[_Block]:
    func = sch.mod["main"]
    params = list(func.params)
    return [
        _Block(one, loops_around(sch, one), _writes_any(one.block, params))
        for one in realizes(func)
    ]


def _writes_any(block: Any, params: Sequence[Any]) -> bool:
    return any(region.source.same_as(param) for region in block.writes for param in params)


def _tiles(block: _Block) -> Iterator[Move]:
    for loop in block.loops:
        if loop.extent <= 3 or loop.mode != "serial":
            continue
        inner = [str(d) for d in divisors(loop.extent)[1:-1]]
        line = f"split {block.name}.{loop.name}: {loop.extent} {loop.kind}, "
        yield Move(_filled(line + "divides by", inner) if inner else line + "prime", "tile")


def _filled(line: str, words: Sequence[str]) -> str:
    """As many of the words as a line takes."""
    for word in words:
        if len(line) + 1 + len(word) > _WIDTH:
            break
        line = f"{line} {word}" if line else word
    return line[:_WIDTH]


def _marks(block: _Block) -> Iterator[Move]:
    for loop in (loop for loop in block.loops if loop.mode == "serial"):
        if loop.kind == "spatial" and (strides := _strides(block, loop)):
            fits = "" if 0 < loop.extent <= MOST_LANES else f" (split, <= {MOST_LANES})"
            yield Move(f"vectorize {block.name}.{loop.name}{fits}: {strides}", "vectorize")
        if 1 < loop.extent <= MOST_UNROLLED:
            yield Move(f"unroll {block.name}.{loop.name}: {loop.extent} copies", "unroll")


def _strides(block: _Block, loop: Loop) -> str:
    """Where a vector of it lies in one piece, and where not; empty if not where it is stored.

    Only a plain index, such as a block of an untouched function has, shows it.
    """
    bound = zip(block.stmt.iter_vars, block.realize.iter_values, strict=True)
    own = [one.var for one, value in bound if _steps_by_one(value, loop.sref.stmt.loop_var)]
    regions = [*block.stmt.writes, *block.stmt.reads]
    unit = {str(region.source.name): None for region in regions if _ends_in(region, own)}
    other = {str(region.source.name): None for region in regions if _uses(region, own)}
    if str(block.stmt.writes[0].source.name) not in unit:
        return ""
    strided = [name for name in other if name not in unit]
    return f"strided in {' '.join(strided)}" if strided else "unit stride in all it indexes"


def _uses(region: Any, own: Sequence[Any]) -> bool:
    mins = [var for one in region.region for var in variables(one.min)]
    return any(var.same_as(mine) for var in mins for mine in own)


def _steps_by_one(value: Any, var: Any) -> bool:
    terms = (value.a, value.b) if isinstance(value, Add) else (value,)
    return any(term.same_as(var) for term in terms)


def _ends_in(region: Any, own: Sequence[Any]) -> bool:
    return bool(region.region) and any(region.region[-1].min.same_as(var) for var in own)


def _order(block: _Block) -> Iterator[Move]:
    free, reduced = block.named("spatial"), block.named("reduce")
    if len(free) + len(reduced) > 1:
        yield Move(f"reorder {block.name}: {' '.join(loop.name for loop in block.loops)}", "order")
    if not free or any(loop.mode == "parallel" for loop in block.loops):
        return
    fused = [loop for loop in block.loops if loop.name in free]
    yield Move(f"parallel {block.name}.{free[0]}: {fused[0].extent} iterations", "parallel")
    if len(fused) > 1 and all(loop.extent > 0 for loop in fused[:2]):
        size = fused[0].extent * fused[1].extent
        names = f"{free[0]} {free[1]}"
        yield Move(f"fuse {block.name}: {names}, then parallel: {size} iterations", "parallel")


def _reductions(block: _Block) -> Iterator[Move]:
    if not block.reduces:
        return
    reduced = [loop for loop in block.loops if loop.kind == "reduce"]
    for loop in reduced[:1]:
        line = f"decompose_reduction {block.name}.{loop.name} or around it, after all else"
        yield Move(line, "reduce")
    for loop in reduced:
        if loop.extent > 1:
            yield Move(f"rfactor {block.name}.{loop.name}: {loop.extent} parts", "reduce")


def _caches(block: _Block) -> Iterator[Move]:
    reads = {str(region.source.name): region.source for region in block.stmt.reads}
    writes = {str(region.source.name): region.source for region in block.stmt.writes}
    if block.reduces:
        for name in writes:
            yield Move(f"cache_write {block.name} {name}: {_size(writes[name])}", "cache")
    for name in (name for name in reads if name not in writes):
        yield Move(f"cache_read {block.name} {name}: {_size(reads[name])}", "cache")
        if block.reduces and (packed := _packed(reads[name])):
            yield Move(f"transform_layout {name}_global after cache_read: {packed}", "layout")


def _size(buffer: Any) -> str:
    shape = [int(dim) if isinstance(dim, IntImm) else -1 for dim in buffer.shape]
    shown = "x".join("?" if dim < 0 else str(dim) for dim in shape)
    kib = prod(shape) * (int(buffer.dtype.bits) * int(buffer.dtype.lanes)) / 8192
    return f"{shown} {buffer.dtype}" + (f", {kib:.4g} KiB" if min(shape, default=1) > 0 else "")


def _packed(buffer: Any) -> str:
    """A map that puts whole vectors of the last dimension side by side."""
    if len(buffer.shape) != 2 or not isinstance(buffer.shape[1], IntImm):
        return ""
    if int(buffer.shape[1]) % _PACKED or int(buffer.shape[1]) == _PACKED:
        return ""
    return f"lambda a, b: (b//{_PACKED}, a, b%{_PACKED})"


def _notes(block: _Block) -> Iterator[Move]:
    if block.loops and prod(abs(loop.extent) for loop in block.loops) > MOST_UNROLLED:
        line = f"annotate {block.name}.{block.loops[0].name} pragma_auto_unroll_max_step 16..512"
        yield Move(line, "annotate")


_PARTS: tuple[Callable[[_Block], Iterator[Move]], ...] = (
    *(_tiles, _order, _marks, _reductions),
    *(_caches, _notes),
)


def _inlining(sch: Schedule, blocks: Sequence[_Block]) -> Iterator[Move]:
    """Asked of TVM, since the answer hangs on how the indices invert."""
    plain = Schedule(sch.mod, debug_mask="none", error_render_level="none")
    for block in blocks:
        if block.reduces or "reduce" in {loop.kind for loop in block.loops} or len(blocks) < 2:
            continue
        ways = ("reverse_compute_inline",) if block.is_output else _WAYS
        for way in ways:
            if _works(plain.copy(), way, block.name):
                yield Move(f"{way} {block.name}", "fuse")


_WAYS = ("compute_inline", "reverse_compute_inline")


def _works(trial: Schedule, way: str, block: str) -> bool:
    try:
        getattr(trial, way)(trial.get_sblock(block))
    except TVM_ERRORS:
        return False
    return True


def _placing(blocks: Sequence[_Block]) -> Iterator[Move]:
    for block in blocks:
        made = {str(region.source.name) for region in block.stmt.writes}
        users = [one for one in blocks if one is not block and made & _reads(one)]
        if not block.is_output and len(users) == 1:
            user = users[0].name
            yield Move(f"compute_at {block.name} at a loop of {user}", "place")
            yield Move(f"reverse_compute_at {user} at a loop of {block.name}", "place")


def _reads(block: _Block) -> set[str]:
    return {str(region.source.name) for region in block.stmt.reads}
