# SPDX-License-Identifier: Apache-2.0
"""The linalg ops of one function as a recipe counts them: their dimensions, and who feeds whom."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kope_tvm.errors import ModelError
from kope_tvm.mlir.bindings import interpreter, ir, linalg, op_name, parse
from kope_tvm.mlir.transform_text import FUSE_ELEMENTWISE, PADS_AS_FILLS, sequence

_FILL = "linalg.fill"


@dataclass(frozen=True)
class LinalgOp:
    """One op with static dimensions."""

    name: str
    """`linalg.matmul`."""
    iterators: tuple[str, ...]
    """`parallel` or `reduction`, one a dimension."""
    extents: tuple[int, ...]
    last_input: frozenset[int]
    """Dimensions along which some input lies in one piece."""
    is_contraction: bool
    """Sums of products of tensors that each lack a dimension, or of windows."""
    is_fed: bool
    """Whether it comes along when the last op is tiled."""
    key: str
    """Structural: `kope::StructuralKey` spells the same."""

    @property
    def parallel(self) -> tuple[int, ...]:
        return tuple(at for at, kind in enumerate(self.iterators) if kind == "parallel")

    @property
    def reduced(self) -> tuple[int, ...]:
        return tuple(at for at, kind in enumerate(self.iterators) if kind == "reduction")

    @property
    def is_fill(self) -> bool:
        return self.name == _FILL


@dataclass(frozen=True)
class Outline:
    """The ops of a function in program order, once pads are fills."""

    function: str
    ops: tuple[LinalgOp, ...]

    @property
    def fed(self) -> tuple[LinalgOp, ...]:
        """What is tiled: the last op and whatever feeds it, in program order."""
        return tuple(op for op in self.ops if op.is_fed)

    @property
    def last(self) -> LinalgOp:
        return self.ops[-1]


def outline(text: str, name: str, *, fuse_elementwise: bool) -> Outline:
    """Of the only function in MLIR text; `name` stands for its file in errors.

    Raises ModelError where there is another number of functions, or no op of linalg.
    """
    module = parse(text, name)
    with module.context, ir.Location.unknown():
        _prepare(module, fuse_elementwise=fuse_elementwise)
        funcs = [op for op in module.body.operations if op_name(op) == "func.func"]
        if len(funcs) != 1:
            raise ModelError(f"{name}: {len(funcs)} functions; expected one")
        (block,) = funcs[0].regions[0].blocks
        found = [op for op in block.operations if linalg.get_indexing_maps(op.operation)]
        if not found:
            raise ModelError(f"{name}: no op of linalg in it")
        fed = _feeding(found)
        symbol = ir.StringAttr(funcs[0].attributes["sym_name"]).value
        return Outline(symbol, tuple(_described(op, is_fed=op in fed) for op in found))


def _prepare(module: Any, *, fuse_elementwise: bool) -> None:
    """What every script does first."""
    text = sequence(PADS_AS_FILLS + (FUSE_ELEMENTWISE if fuse_elementwise else ""))
    script = ir.Module.parse(text)
    interpreter.apply_named_sequence(module.operation, script.body.operations[0], script)


def _feeding(ops: list[Any]) -> list[Any]:
    """The last op, and those that it reads through ops of linalg alone."""
    by_result = {value: op for op in ops for value in op.results}
    fed, open_ops = [], [ops[-1]]
    while open_ops:
        op = open_ops.pop()
        if op not in fed:
            fed.append(op)
            open_ops += [by_result[value] for value in op.operands if value in by_result]
    return fed


def _described(op: Any, *, is_fed: bool) -> LinalgOp:
    maps = [each.value for each in linalg.get_indexing_maps(op.operation)]
    num_inputs = len(op.operands) - len(op.results)
    found = dict(_extents(op, maps))
    kept = {at for each in maps[num_inputs:] for at in _plain(each) if at >= 0}
    dims = range(maps[0].n_dims)
    iterators = tuple("parallel" if at in kept else "reduction" for at in dims)
    inputs = [_plain(each) for each in maps[:num_inputs]]
    extents = tuple(found.get(at, 0) for at in dims)
    return LinalgOp(
        name=str(op_name(op)),
        iterators=iterators,
        extents=extents,
        last_input=frozenset(plain[-1] for plain in inputs if plain and plain[-1] >= 0),
        is_contraction=len(kept) < len(dims) and _multiplies(inputs, kept),
        is_fed=is_fed,
        key=_key(op, iterators, extents, maps),
    )


def _multiplies(inputs: list[list[int]], kept: set[int]) -> bool:
    is_window = any(-1 in plain for plain in inputs)
    return is_window or sum(1 for plain in inputs if not kept <= set(plain)) > 1


def _key(op: Any, iterators: Sequence[str], extents: Sequence[int], maps: Sequence[Any]) -> str:
    (block,) = op.regions[0].blocks
    *body, _ = (op_name(each) for each in block.operations)
    kinds = "".join(each[0] for each in iterators)
    types = ",".join(str(getattr(value.type, "element_type", value.type)) for value in op.operands)
    shown = "".join(f"; {each}" for each in maps)
    return f"{op_name(op)}({','.join(body)}) {kinds} {'x'.join(map(str, extents))} {types}{shown}"


def _extents(op: Any, maps: list[Any]) -> Iterator[tuple[int, int]]:
    """The extent of each dimension that some operand is indexed by alone."""
    for value, each in zip(op.operands, maps, strict=True):
        shape = tuple(value.type.shape) if isinstance(value.type, ir.RankedTensorType) else ()
        for at, extent in zip(_plain(each), shape, strict=True):
            if at >= 0:
                yield at, extent


def _plain(of: Any) -> list[int]:
    """The dimension that each result of a map is; -1 where it is none alone."""
    return [
        ir.AffineDimExpr(each).position if isinstance(each, ir.AffineDimExpr) else -1
        for each in of.results
    ]
