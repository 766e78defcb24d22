# SPDX-License-Identifier: Apache-2.0
"""A scheduled PrimFunc as plain loops, and how much of a block's work lies within each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import s_tir, tirx

_KINDS = {1: "parallel", 2: "vectorized", 3: "unrolled", 4: "bound"}


@dataclass(frozen=True)
class Iter:
    """One iterator of a block where it runs: its value in terms of loops."""

    name: str
    value: Any
    extent: int
    is_spatial: bool


@dataclass(frozen=True)
class Stage:
    """One block."""

    block: str
    iters: tuple[Iter, ...]


@dataclass(frozen=True)
class Loop:
    """One loop and what is in it, in order."""

    key: int
    """Of its variable."""
    extent: int
    kind: str
    """`serial`, `parallel`, `vectorized`, `unrolled` or `bound`."""
    body: tuple[Loop | Stage, ...]

    def stages(self) -> Iterator[Stage]:
        """All blocks in it, in order."""
        for node in self.body:
            if isinstance(node, Loop):
                yield from node.stages()
            else:
                yield node

    def path(self, stage: Stage) -> tuple[Loop, ...]:
        """The loops from this one to a block in it."""
        for node in self.body:
            if node is stage:
                return (self,)
            if isinstance(node, Loop) and any(each is stage for each in node.stages()):
                return (self, *node.path(stage))
        raise ValueError(f"{stage.block} is not in this loop")


def nests(func: tirx.PrimFunc) -> tuple[Loop | Stage, ...]:
    """The outermost loops of a function, in order."""
    return tuple(_read(func.body, {}))


def _read(node: Any, values: Mapping[int, Any]) -> Iterator[Loop | Stage]:
    """`values` is what the iterators of the blocks around are, by their variables' hashes."""
    if isinstance(node, tirx.SeqStmt):
        for child in node.seq:
            yield from _read(child, values)
    elif isinstance(node, tirx.For):
        kind = _KINDS.get(int(node.kind), "serial")
        body = tuple(_read(node.body, values))
        if body:
            yield Loop(hash(node.loop_var), int(node.extent), kind, body)
    elif isinstance(node, s_tir.SBlockRealize):
        yield from _block(node, values)
    elif hasattr(node, "body"):
        yield from _read(node.body, values)


def _block(node: Any, values: Mapping[int, Any]) -> Iterator[Loop | Stage]:
    block = node.block
    iters = tuple(
        Iter(str(it.var.name), _Value(given, values), int(it.dom.extent), int(it.iter_type) == 0)
        for it, given in zip(block.iter_vars, node.iter_values, strict=True)
    )
    within = {hash(it.var): each.value for it, each in zip(block.iter_vars, iters, strict=True)}
    inner = list(_read(block.body, {**values, **within}))
    if inner:
        yield from inner
    elif str(block.name_hint) != "root":
        yield Stage(str(block.name_hint), iters)


@dataclass(frozen=True)
class _Value:
    """An expression, and what the variables of blocks in it stand for."""

    expr: Any
    within: Mapping[int, Any]


def spread(iters: Sequence[Iter], loops: Sequence[Loop]) -> tuple[int, ...]:
    """How many values each iterator takes while these loops run and all others stand still."""
    extents = {loop.key: loop.extent for loop in loops}
    found = []
    for each in iters:
        low, high = _range(each.value, extents)
        found.append(min(high - low + 1, each.extent))
    return tuple(found)


_Bounds = tuple[int, int]


def _range(value: _Value, extents: Mapping[int, int]) -> _Bounds:
    expr = value.expr
    if isinstance(expr, tirx.IntImm):
        return int(expr.value), int(expr.value)
    if isinstance(expr, tirx.Var):
        if hash(expr) in value.within:
            return _range(value.within[hash(expr)], extents)
        return 0, extents.get(hash(expr), 1) - 1
    way = next((way for kind, way in _WAYS if isinstance(expr, kind)), None)
    if way is None:
        return (
            _range(_Value(expr.value, value.within), extents) if hasattr(expr, "value") else (0, 0)
        )
    parts = (_range(_Value(part, value.within), extents) for part in (expr.a, expr.b))
    return way(*parts)


def _product(a: _Bounds, b: _Bounds) -> _Bounds:
    corners = [x * y for x in a for y in b]
    return min(corners), max(corners)


def _quotient(a: _Bounds, b: _Bounds) -> _Bounds:
    return a[0] // max(b[0], 1), a[1] // max(b[0], 1)


def _rest(a: _Bounds, b: _Bounds) -> _Bounds:
    divisor = max(b[0], 1)
    is_one_round = a[0] // divisor == a[1] // divisor
    return (a[0] % divisor, a[1] % divisor) if is_one_round else (0, divisor - 1)


_WAYS: tuple[tuple[type, Callable[[_Bounds, _Bounds], _Bounds]], ...] = (
    (tirx.Add, lambda a, b: (a[0] + b[0], a[1] + b[1])),
    (tirx.Sub, lambda a, b: (a[0] - b[1], a[1] - b[0])),
    (tirx.Mul, _product),
    (tirx.FloorDiv, _quotient),
    (tirx.FloorMod, _rest),
    (tirx.Min, lambda a, b: (min(a[0], b[0]), min(a[1], b[1]))),
    (tirx.Max, lambda a, b: (max(a[0], b[0]), max(a[1], b[1]))),
)
