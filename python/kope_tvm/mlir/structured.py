# SPDX-License-Identifier: Apache-2.0
"""Any structured operation of linalg as TE, out of its indexing maps and its body.

A named operation has both too. A body that combines the output's element with the rest is a
reduction; where the output starts from a constant, so does TIR's, and elsewhere what was there
is combined with it afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tvm import te

from kope_tvm.mlir import affine
from kope_tvm.mlir.bindings import ir, linalg, op_name
from kope_tvm.mlir.body import Argument, Body, Point
from kope_tvm.mlir.combiners import Combiner, reduced
from kope_tvm.mlir.known import Known, Loops, Splat, element, kind_of, short_name
from kope_tvm.mlir.scalars import Expr
from kope_tvm.mlir.unimportable import UnimportableError


def fill(op: ir.OpView, known: Known) -> None:
    """`linalg.fill`: no block where its value is a constant."""
    value = known.of(op, op.operands[0])
    shape, dtype = kind_of(op, op.results[0])
    if isinstance(value, te.Tensor):
        known.values[op.results[0]] = known.compute(op, shape, lambda *_: element(op, value, ()))
    else:
        known.values[op.results[0]] = Splat(value, shape, dtype)


def structured(op: ir.OpView, known: Known) -> None:
    """Make a block, or two, of every result."""
    operation = _Structured(op, known)
    for number, result in enumerate(op.results):
        known.values[result] = operation.result(number)


@dataclass(frozen=True)
class _Operand:
    """One operand with its map."""

    value: Any
    map: ir.AffineMap


class _Structured:
    """One operation, with its operands known."""

    def __init__(self, op: ir.OpView, known: Known) -> None:
        self._op = op
        self._known = known
        maps = linalg.get_indexing_maps(op.operation)
        if maps is None:
            raise UnimportableError(op, "it has no indexing maps")
        self._operands = [
            _Operand(value, each.value) for value, each in zip(op.operands, maps, strict=True)
        ]
        self._body = Body(op, known)

    def result(self, number: int) -> te.Tensor:
        """The tensor that the operation computes as its result of this number."""
        out = self._outputs[number]
        axes = [d for d in range(out.map.n_dims) if d not in self._kept(out)]
        return self._reduction(number, axes) if axes else self._elementwise(number)

    @property
    def _outputs(self) -> list[_Operand]:
        return self._operands[len(self._operands) - len(self._op.results) :]

    @cached_property
    def _extents(self) -> dict[int, int]:
        """The extent of each dimension that some operand is indexed by alone."""
        found: dict[int, int] = {}
        for operand in self._operands:
            shape, _ = kind_of(self._op, operand.value)
            for expr, extent in zip(operand.map.results, shape, strict=True):
                found.setdefault(affine.position(expr), extent)
        return found

    def _kept(self, out: _Operand) -> list[int]:
        """The dimensions that the axes of an output are, in order; -1 for an axis of one."""
        kept = [affine.position(expr) for expr in out.map.results]
        shape, _ = kind_of(self._op, out.value)
        if any(each < 0 and extent != 1 for each, extent in zip(kept, shape, strict=True)):
            raise UnimportableError(self._op, f"its output is written through {out.map}")
        return kept

    def _elementwise(self, number: int) -> te.Tensor:
        out = self._outputs[number]

        def cell(*indices: Expr) -> Expr:
            return self._body.value(self._body.yielded(number), self._at(self._dims(out, indices)))

        shape, _ = kind_of(self._op, out.value)
        return self._known.compute(self._op, shape, cell, self._name(), self._loops(out, ()))

    def _reduction(self, number: int, dims_reduced: Sequence[int]) -> te.Tensor:
        out = self._outputs[number]
        shape, dtype = kind_of(self._op, out.value)
        argument = len(self._operands) - len(self._op.results) + number
        combiner, term = self._body.reduction(number, argument)
        axes = list(self._axes(dims_reduced))
        start = self._known.of(self._op, out.value)
        is_constant = isinstance(start, Splat) and start.value is not None
        first = start.value if is_constant else combiner.identity(dtype)

        def cell(*indices: Expr) -> Expr:
            inner = {dim: axis.var for dim, axis in zip(dims_reduced, axes, strict=True)}
            point = self._at({**self._dims(out, indices), **inner}, argument)
            return reduced(combiner, first, self._body.value(term, point), axes)

        loops = self._loops(out, dims_reduced)
        found = self._known.compute(self._op, shape, cell, self._name(), loops)
        return found if is_constant else self._onto(out, combiner, found)

    def _loops(self, out: _Operand, reduced: Sequence[int]) -> Loops | None:
        """None where an axis of the output is no dimension of the operation."""
        kept = self._kept(out)
        extents = [self._extents.get(dim, 1) for dim in range(out.map.n_dims)]
        return None if -1 in kept else Loops((*kept, *reduced), tuple(extents), tuple(reduced))

    def _onto(self, out: _Operand, combiner: Combiner, found: te.Tensor) -> te.Tensor:
        """What the output held before, combined with the reduction."""
        start = self._known.of(self._op, out.value)
        return self._known.compute(
            self._op,
            kind_of(self._op, out.value)[0],
            lambda *at: combiner.combine(
                element(self._op, start, at), element(self._op, found, at)
            ),
            f"{self._name()}_onto",
        )

    def _axes(self, dims: Sequence[int]) -> Iterator[te.IterVar]:
        for number, dim in enumerate(dims):
            if dim not in self._extents:
                raise UnimportableError(self._op, f"nothing says how long its dimension {dim} is")
            yield te.reduce_axis((0, self._extents[dim]), name=f"k{number}" if number else "k")

    def _dims(self, out: _Operand, indices: Sequence[Expr]) -> dict[int, Expr]:
        return {dim: at for dim, at in zip(self._kept(out), indices, strict=True) if dim >= 0}

    def _at(self, dims: dict[int, Expr], own: int = -1) -> Point:
        """A point of the body; a reduction may not read the output's element `own` in its terms."""
        arguments: list[Argument] = [
            _Element(self._op, self._known, each, dims) for each in self._operands
        ]
        if own >= 0:
            arguments[own] = self._refuse_own
        return Point(arguments, dims)

    def _refuse_own(self) -> Expr:
        raise UnimportableError(self._op, "its reduction uses the output's element twice")

    def _name(self) -> str:
        """A generic of one operation is called as that."""
        if op_name(self._op) not in ("linalg.generic", "linalg.map", "linalg.reduce"):
            return ""
        inside = self._body.operations
        return short_name(inside[0]) if len(inside) == 1 else ""


@dataclass(frozen=True)
class _Element:
    """One operand's element at a point."""

    op: Any
    known: Known
    operand: _Operand
    dims: dict[int, Expr]

    def __call__(self) -> Expr:
        source = self.known.of(self.op, self.operand.value)
        at = [affine.applied(expr, self.dims) for expr in self.operand.map.results]
        is_tensor = isinstance(source, te.Tensor | Splat)
        return element(self.op, source, at) if is_tensor else source
