# SPDX-License-Identifier: Apache-2.0
"""Functions of linalg on tensors as PrimFuncs: one function, one task, an operation a block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tvm import IRModule, te, topi

from kope_tvm.errors import ModelError
from kope_tvm.mlir.bindings import ir, linalg, op_name, parse, place
from kope_tvm.mlir.known import Known, kind_of
from kope_tvm.mlir.source import Source, dims_of
from kope_tvm.mlir.structured import fill, structured
from kope_tvm.mlir.tensors import TENSORS
from kope_tvm.mlir.unimportable import UnimportableError


@dataclass(frozen=True)
class Imported:
    """A module's functions, as they lie in TIR."""

    mod: IRModule
    sources: dict[str, dict[str, Source]]
    """By function and block, in program order."""


def read_mlir(path: Path) -> IRModule:
    """The functions of an MLIR file; raises ModelError with the place of what is not imported."""
    return import_file(path).mod


def import_file(path: Path) -> Imported:
    """The same with where each block comes from."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise ModelError(f"{path}: no such file") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"{path}: cannot be read: {error}") from error
    return import_text(text, str(path))


def import_text(text: str, name: str) -> Imported:
    """The functions of MLIR text; `name` stands for its file in errors."""
    module = parse(text, name)
    functions: dict[str, Any] = {}
    sources: dict[str, dict[str, Source]] = {}
    try:
        for op in module.body.operations:
            if op_name(op) != "func.func":
                raise UnimportableError(op, "only func.func is imported")
            symbol = ir.StringAttr(op.attributes["sym_name"]).value
            functions[symbol], sources[symbol] = _Function(op).imported(symbol)
    except UnimportableError as error:
        raise ModelError(f"{place(error.location, name)}: {error}") from error
    if not functions:
        raise ModelError(f"{name}: no func.func in it")
    return Imported(IRModule(functions), sources)


class _Function:
    """One `func.func` whose body is one block."""

    def __init__(self, op: ir.OpView) -> None:
        self._op = op
        self._known = Known()
        self._sources: dict[str, Source] = {}
        self._counts: dict[str, int] = {}

    def imported(self, symbol: str) -> tuple[Any, dict[str, Source]]:
        """The PrimFunc, and the operations of its blocks."""
        if len(self._op.regions[0].blocks) != 1:
            raise UnimportableError(self._op, "its body is not one block")
        (block,) = self._op.regions[0].blocks
        inputs = [self._argument(number, each) for number, each in enumerate(block.arguments)]
        *operations, last = block.operations
        for op in operations:
            self._import(op)
        outputs = list(self._outputs(last, inputs))
        func = te.create_prim_func([*inputs, *outputs])
        return func.with_attr({"global_symbol": symbol, "tirx.noalias": True}), self._sources

    def _argument(self, number: int, value: ir.Value) -> te.Tensor:
        shape, dtype = kind_of(self._op, value)
        found = te.placeholder(shape, dtype, name=f"arg{number}")
        self._known.values[value] = found
        return found

    def _import(self, op: ir.OpView) -> None:
        before = len(self._known.blocks)
        _way(op)(op, self._known)
        which = self._counts.get(op_name(op), 0)
        self._counts[op_name(op)] = which + 1
        for block, loops in list(self._known.blocks.items())[before:]:
            self._sources[block] = Source(op_name(op), which, *loops, reads=_reads(op))

    def _outputs(self, last: ir.OpView, inputs: Sequence[te.Tensor]) -> Any:
        """What is returned, each of them a tensor of its own."""
        seen = list(inputs)
        if not last.operands:
            raise UnimportableError(self._op, "it returns nothing")
        for value in last.operands:
            found = self._known.tensor(last, value)
            if any(found is each or found.same_as(each) for each in seen):
                found = self._known.compute(last, found.shape, found)
            seen.append(found)
            yield found


def _reads(op: ir.OpView) -> tuple[frozenset[int], ...]:
    maps = linalg.get_indexing_maps(op.operation) or ()
    return tuple(dims_of(str(each)) for each in list(maps)[: len(op.operands) - len(op.results)])


def _way(op: ir.OpView) -> Any:
    if op_name(op) in TENSORS:
        return TENSORS[op_name(op)]
    if op_name(op) == "linalg.fill":
        return fill
    if op_name(op) == "linalg.softmax":
        return _softmax
    if op_name(op).startswith("linalg."):
        return structured
    known = ", ".join(("linalg", *TENSORS))
    raise UnimportableError(op, f"it is not imported; known: {known}")


def _softmax(op: ir.OpView, known: Known) -> None:
    axis = int(op.attributes["dimension"].value)
    known.values[op.results[0]] = topi.nn.softmax(known.tensor(op, op.operands[0]), axis)
