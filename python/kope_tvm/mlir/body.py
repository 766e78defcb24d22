# SPDX-License-Identifier: Apache-2.0
"""The body of a structured operation as a TIR expression."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from kope_tvm.mlir import scalars
from kope_tvm.mlir.bindings import ir, op_name
from kope_tvm.mlir.combiners import COMBINERS, Combiner
from kope_tvm.mlir.known import Known, constant, element, index, kind_of
from kope_tvm.mlir.scalars import Expr
from kope_tvm.mlir.unimportable import UnimportableError

Argument = Callable[[], Expr]
"""An operand's element, read where the body uses it."""


@dataclass(frozen=True)
class Term:
    """What a reduction adds up: a value of the body or, of an `fma`, the product of two."""

    factors: tuple[Any, ...]


@dataclass(frozen=True)
class Point:
    """Where the body is evaluated."""

    arguments: Sequence[Argument]
    dims: Mapping[int, Expr]


class Body:
    """One block of scalar operations that ends in `linalg.yield`."""

    def __init__(self, op: ir.OpView, known: Known) -> None:
        self._op = op
        self._known = known
        self._block = op.regions[0].blocks[0]
        self._arguments = {value: n for n, value in enumerate(self._block.arguments)}

    @cached_property
    def operations(self) -> list[ir.OpView]:
        """All but the `linalg.yield` that ends it."""
        return list(self._block.operations)[:-1]

    def yielded(self, number: int) -> Term:
        """What it yields as its result of this number."""
        return Term((list(self._block.operations)[-1].operands[number],))

    def reduction(self, number: int, argument: int) -> tuple[Combiner, Term]:
        """What combines an output's own element, an argument of the body, with what else."""
        (yielded,) = self.yielded(number).factors
        if yielded in self._arguments:
            raise UnimportableError(self._op, "its reduction combines nothing")
        last = yielded.owner.opview
        own = self._block.arguments[argument]
        rest = tuple(value for value in last.operands if value != own)
        is_fma = op_name(last) == "math.fma" and last.operands[2] == own
        name = "arith.addf" if is_fma else op_name(last)
        if name not in COMBINERS or len(rest) != len(last.operands) - 1:
            known = ", ".join(COMBINERS)
            raise UnimportableError(
                last, f"a reduction ends in a combination of its output with the rest by {known}"
            )
        combine = COMBINERS[name].combine if is_fma else _operation(last)
        return Combiner(combine, COMBINERS[name].identity), Term(rest)

    def value(self, term: Term, point: Point) -> Expr:
        """A value of the body at a point."""
        first, *others = (self._value(factor, point) for factor in term.factors)
        for other in others:
            first = first * other
        return first

    def _value(self, value: Any, point: Point) -> Expr:
        if value in self._arguments:
            return point.arguments[self._arguments[value]]()
        if value in self._known.values:
            found = self._known.values[value]
            return found() if callable(found) else found
        return self._computed(value.owner.opview, point)

    def _computed(self, op: ir.OpView, point: Point) -> Expr:
        if op_name(op) == "arith.constant":
            return constant(op, op.attributes["value"], kind_of(op, op.results[0])[1])
        if op_name(op) == "linalg.index":
            return point.dims[int(op.attributes["dim"].value)].astype("int64")
        if op_name(op) == "tensor.extract":
            at = [index(self._value(each, point)) for each in list(op.operands)[1:]]
            return element(op, self._known.tensor(op, op.operands[0]), at)
        return _operation(op)(*(self._value(each, point) for each in op.operands))


def _operation(op: ir.OpView) -> Callable[..., Expr]:
    """What a scalar operation does to its operands."""
    name = op_name(op)
    if name in scalars.CASTS:
        to = kind_of(op, op.results[0])[1]
        return lambda operand: scalars.CASTS[name](operand, to)
    if name in scalars.COMPARISONS:
        predicate = int(op.attributes["predicate"].value)
        return lambda left, right: scalars.COMPARISONS[name](predicate, left, right)
    known = {**scalars.OPERATIONS, **(scalars.WITHOUT_NANS if _has_no_nans(op) else {})}
    if name not in known:
        raise UnimportableError(op, "no scalar operation that is imported")
    found: Callable[..., Expr] = known[name]
    return found


def _has_no_nans(op: ir.OpView) -> bool:
    flags = str(op.attributes["fastmath"]) if "fastmath" in op.attributes else ""
    return "nnan" in flags or "fast>" in flags
