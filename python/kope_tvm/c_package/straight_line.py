# SPDX-License-Identifier: Apache-2.0
"""A Relax function without branches as steps, with a place for every tensor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import tvm
from tvm import relax

from kope_tvm.c_package.arena import Lifetime, planned
from kope_tvm.c_package.plan import (
    ALIGNMENT_BYTES,
    ARENA,
    CONSTANT,
    PARAM,
    Operand,
    Param,
    Step,
    num_bytes,
)
from kope_tvm.call_tir import called_name
from kope_tvm.errors import UsageError
from kope_tvm.tensor_spec import TensorSpec


@dataclass(frozen=True)
class StraightLine:
    """The steps of a function, their intermediates in one arena."""

    steps: tuple[Step, ...]
    arena_bytes: int
    constants: bytes

    @staticmethod
    def of(func: relax.Function, params: Sequence[Param], model: str) -> StraightLine:
        """Lower a function whose bindings all call a PrimFunc; UsageError names another."""
        walk = _Walk(model)
        inputs = (i for i, param in enumerate(params) if not param.is_output)
        for var, i in zip(func.params, inputs, strict=True):
            walk.values[var] = Operand(PARAM, i, params[i].spec)
        for block in func.body.blocks:
            for binding in block.bindings:
                walk.values[binding.var] = walk.value(binding.value)
        outputs = (i for i, param in enumerate(params) if param.is_output)
        walk.give_back(list(_flat(walk.value(func.body.body))), list(outputs))
        return walk.placed()


@dataclass
class _Walk:
    """The state of a walk; until all is known, an intermediate's place is its number."""

    model: str
    values: dict[Any, Any] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    constants: bytearray = field(default_factory=bytearray)
    made: list[TensorSpec] = field(default_factory=list)

    def value(self, expr: Any) -> Any:
        """The operand of an expression, or a tuple of them; a call becomes a step."""
        if isinstance(expr, relax.Var):
            return self.values[expr]
        if isinstance(expr, tvm.ir.GenericConst):
            return self._constant(expr)
        if isinstance(expr, relax.Tuple):
            return tuple(self.value(each) for each in expr.fields)
        if isinstance(expr, relax.TupleGetItem):
            return self.value(expr.tuple_value)[expr.index]
        return self._call(expr)

    def give_back(self, results: Sequence[Operand], outputs: Sequence[int]) -> None:
        """Let results be written where the caller wants them; copy what cannot."""
        moved: dict[int, int] = {}
        for result, output in zip(results, outputs, strict=True):
            if result.place == ARENA and result.at not in moved:
                moved[result.at] = output
        self.steps = [_moved(step, moved) for step in self.steps]
        for result, output in zip(results, outputs, strict=True):
            source = _moved_operand(result, moved)
            if (source.place, source.at) != (PARAM, output):
                self.steps.append(Step("", (source, replace(source, place=PARAM, at=output))))

    def placed(self) -> StraightLine:
        """The steps with every intermediate at its offset."""
        lives: dict[int, Lifetime] = {}
        for number, step in enumerate(self.steps):
            for operand in step.operands:
                if operand.place == ARENA:
                    size = num_bytes(self.made[operand.at])
                    first = lives[operand.at].first if operand.at in lives else number
                    lives[operand.at] = Lifetime(size, first, number)
        arena = planned(list(lives.values()))
        offsets = dict(zip(lives, arena.offsets, strict=True))
        steps = tuple(
            Step(step.kernel, tuple(_at(operand, offsets) for operand in step.operands))
            for step in self.steps
        )
        return StraightLine(steps, arena.size, bytes(self.constants))

    def _constant(self, expr: Any) -> Operand:
        if expr not in self.values:
            array = expr.value.numpy()
            self.constants += bytes(-len(self.constants) % ALIGNMENT_BYTES)
            spec = TensorSpec("constant", tuple(array.shape), str(array.dtype))
            self.values[expr] = Operand(CONSTANT, len(self.constants), spec)
            self.constants += array.tobytes()
        found: Operand = self.values[expr]
        return found

    def _call(self, expr: Any) -> Any:
        kernel = called_name(expr)
        if not kernel or len(expr.args) != 2:
            said = str(expr).strip().splitlines()[-1]
            raise UsageError(
                f"{self.model}: {said!r} has no C: expected calls of PrimFuncs with fixed shapes "
                "only; `kope compile` builds such a model for TVM's runtime"
            )
        taken = tuple(_flat(self.value(expr.args[1])))
        results = tuple(self._made(each) for each in _types(expr.ty))
        self.steps.append(Step(kernel, (*taken, *results)))
        return results if isinstance(expr.ty, relax.TupleType) else results[0]

    def _made(self, found: Any) -> Operand:
        shape = found.shape.values if found.shape is not None else [None]
        extents = tuple(int(each) if isinstance(each, tvm.tirx.IntImm) else -1 for each in shape)
        self.made.append(TensorSpec(f"intermediate of {self.model}", extents, str(found.dtype)))
        return Operand(ARENA, len(self.made) - 1, self.made[-1])


def _types(found: Any) -> Sequence[Any]:
    return list(found.fields) if isinstance(found, relax.TupleType) else [found]


def _flat(value: Any) -> Iterator[Operand]:
    for each in value if isinstance(value, tuple) else (value,):
        if isinstance(each, tuple):
            yield from _flat(each)
        else:
            yield each


def _moved(step: Step, moved: dict[int, int]) -> Step:
    return Step(step.kernel, tuple(_moved_operand(each, moved) for each in step.operands))


def _moved_operand(operand: Operand, moved: dict[int, int]) -> Operand:
    if operand.place == ARENA and operand.at in moved:
        return replace(operand, place=PARAM, at=moved[operand.at])
    return operand


def _at(operand: Operand, offsets: dict[int, int]) -> Operand:
    return replace(operand, at=offsets[operand.at]) if operand.place == ARENA else operand
