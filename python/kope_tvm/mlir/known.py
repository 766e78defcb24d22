# SPDX-License-Identifier: Apache-2.0
"""What the SSA values of a function are in TVM while it is imported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tvm import te, tirx

from kope_tvm.mlir.bindings import ir, op_name
from kope_tvm.mlir.scalars import Expr, dtype
from kope_tvm.mlir.tensor_types import dtype_of, shape_of
from kope_tvm.mlir.unimportable import NoTypeError, UnimportableError


@dataclass(frozen=True)
class Splat:
    """A tensor of one constant; `tensor.empty` where that is None."""

    value: Expr | None
    shape: tuple[int, ...]
    dtype: str


class Loops(NamedTuple):
    """A block's loops as dimensions of its operation; see `Source`."""

    dims: tuple[int, ...]
    extents: tuple[int, ...]
    reduced: tuple[int, ...]


@dataclass
class Known:
    """Values so far: tensors and splats, and scalars outside of any tensor."""

    values: dict[Any, te.Tensor | Splat | Expr] = field(default_factory=dict)
    blocks: dict[str, Loops] = field(default_factory=dict)
    """The blocks made so far."""

    def of(self, op: ir.OpView, value: ir.Value) -> Any:
        """The value as an operand of `op`."""
        if value not in self.values:
            raise UnimportableError(op, f"its operand {value.type} comes from what is not imported")
        return self.values[value]

    def tensor(self, op: ir.OpView, value: ir.Value) -> te.Tensor:
        """The same with its elements in memory."""
        found = self.of(op, value)
        if not isinstance(found, Splat):
            return found
        return self.compute(op, found.shape, lambda *_: element(op, found, ()))

    def compute(
        self,
        op: ir.OpView,
        shape: Sequence[int],
        body: Any,
        name: str = "",
        loops: Loops | None = None,
    ) -> te.Tensor:
        """A block named after its operation; its loops are the axes of its result by default."""
        called = self._new_name(name or short_name(op))
        self.blocks[called] = loops or Loops(tuple(range(len(shape))), tuple(shape), ())
        return te.compute(tuple(shape), body, name=called)

    def _new_name(self, wanted: str) -> str:
        count, name = 0, wanted
        while name in self.blocks:
            count += 1
            name = f"{wanted}_{count}"
        return name


def element(op: ir.OpView, source: te.Tensor | Splat, indices: Sequence[Expr]) -> Expr:
    """One element of a tensor."""
    if not isinstance(source, Splat):
        return source(*indices)
    if source.value is None:
        raise UnimportableError(op, "it reads tensor.empty, which holds nothing yet")
    return source.value


def index(expr: Expr | int) -> Expr:
    """An index as TVM's tensors take them."""
    return expr if isinstance(expr, int) or dtype(expr) == "int32" else expr.astype("int32")


def kind_of(op: ir.OpView, value: ir.Value) -> tuple[tuple[int, ...], str]:
    """Shape and dtype of a value; raises UnimportableError for `op` where TIR has none."""
    try:
        return shape_of(value.type), dtype_of(value.type)
    except NoTypeError as error:
        raise UnimportableError(op, str(error)) from error


def constant(op: ir.OpView, attribute: ir.Attribute, dtype: str) -> Expr:
    """A scalar attribute as a TIR constant."""
    if isinstance(attribute, ir.FloatAttr | ir.IntegerAttr | ir.BoolAttr):
        return tirx.const(attribute.value, dtype)
    raise UnimportableError(op, f"the value {attribute} is no number")


def short_name(op: ir.OpView) -> str:
    """`matmul` of `linalg.matmul`."""
    return str(op_name(op)).partition(".")[2].replace(".", "_")
