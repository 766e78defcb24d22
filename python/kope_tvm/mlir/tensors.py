# SPDX-License-Identifier: Apache-2.0
"""Operations of `tensor` and constants: what moves elements and computes nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np
from tvm import tirx

from kope_tvm.mlir.bindings import ir, op_name
from kope_tvm.mlir.known import Known, Splat, constant, element, kind_of
from kope_tvm.mlir.scalars import Expr
from kope_tvm.mlir.unimportable import UnimportableError

_DYNAMIC = -(2**63)
"""What MLIR writes for an offset that an operand gives."""


def empty(op: ir.OpView, known: Known) -> None:
    """`tensor.empty`: a shape without values."""
    known.values[op.results[0]] = Splat(None, *kind_of(op, op.results[0]))


def number(op: ir.OpView, known: Known) -> None:
    """`arith.constant`: a scalar, or a tensor of one value."""
    shape, dtype = kind_of(op, op.results[0])
    value = op.attributes["value"]
    if not isinstance(op.results[0].type, ir.RankedTensorType):
        known.values[op.results[0]] = constant(op, value, dtype)
    elif isinstance(value, ir.DenseElementsAttr) and value.is_splat:
        splat = constant(op, value.get_splat_value(), dtype)
        known.values[op.results[0]] = Splat(splat, shape, dtype)
    else:
        raise UnimportableError(
            op, f"a constant of {prod(shape)} values; make it an argument of the function"
        )


def splat(op: ir.OpView, known: Known) -> None:
    """`tensor.splat`."""
    shape, dtype = kind_of(op, op.results[0])
    value = known.of(op, op.operands[0])
    known.values[op.results[0]] = (
        known.compute(op, shape, lambda *_: value())
        if callable(value)
        else Splat(value, shape, dtype)
    )


def cast(op: ir.OpView, known: Known) -> None:
    """`tensor.cast` between static shapes, which are the same one."""
    kind_of(op, op.results[0])
    known.values[op.results[0]] = known.of(op, op.operands[0])


def pad(op: ir.OpView, known: Known) -> None:
    """`tensor.pad` with a constant."""
    shape, _ = kind_of(op, op.results[0])
    low, high = (_static(op, f"static_{side}") for side in ("low", "high"))
    source = known.of(op, op.operands[0])
    extents = kind_of(op, op.operands[0])[0]
    value = _padding(op, known)

    def cell(*at: Expr) -> Expr:
        inner = [index - before for index, before in zip(at, low, strict=True)]
        inside = [
            test
            for index, extent, before, after in zip(at, extents, low, high, strict=True)
            for test in _within(index, before, before + extent, before + extent + after)
        ]
        found = element(op, source, inner)
        return tirx.if_then_else(tirx.all(*inside), found, value) if inside else found

    known.values[op.results[0]] = known.compute(op, shape, cell)


def _within(index: Expr, first: int, end: int, extent: int) -> list[Expr]:
    return [*([index >= first] if first else []), *([index < end] if end < extent else [])]


def _padding(op: ir.OpView, known: Known) -> Expr:
    block = op.regions[0].blocks[0]
    value = list(block.operations)[-1].operands[0]
    if value in known.values and not callable(known.values[value]):
        return known.values[value]
    inside = value.owner.opview if value not in list(block.arguments) else op
    if op_name(inside) != "arith.constant":
        raise UnimportableError(op, "it pads with what is not a constant")
    return constant(inside, inside.attributes["value"], kind_of(inside, value)[1])


def reshape(op: ir.OpView, known: Known) -> None:
    """`tensor.expand_shape` and `tensor.collapse_shape`: the same elements in the same order."""
    shape, _ = kind_of(op, op.results[0])
    source = known.of(op, op.operands[0])
    old, _ = kind_of(op, op.operands[0])
    groups = [[int(axis.value) for axis in group] for group in op.attributes["reassociation"]]

    def expanded(*at: Expr) -> Expr:
        return element(
            op, source, [_flat([at[a] for a in g], [shape[a] for a in g]) for g in groups]
        )

    def collapsed(*at: Expr) -> Expr:
        parts = [_unflat(at[n], [old[a] for a in group]) for n, group in enumerate(groups)]
        return element(op, source, [each for part in parts for each in part])

    cell = expanded if len(shape) > len(old) else collapsed
    known.values[op.results[0]] = known.compute(op, shape, cell)


def _flat(at: Sequence[Expr], shape: Sequence[int]) -> Expr:
    total: Expr = tirx.const(0, "int32")
    for index, extent in zip(at, shape, strict=True):
        total = total * extent + index
    return total


def _unflat(index: Expr, shape: Sequence[int]) -> list[Expr]:
    found: list[Expr] = []
    for extent in reversed(shape[1:]):
        found.append(tirx.floormod(index, extent))
        index = tirx.floordiv(index, extent)
    return [index, *reversed(found)] if shape else []


def extract_slice(op: ir.OpView, known: Known) -> None:
    """`tensor.extract_slice` at constant places."""
    shape, _ = kind_of(op, op.results[0])
    offsets, sizes, strides = (
        _static(op, f"static_{name}") for name in ("offsets", "sizes", "strides")
    )
    source = known.of(op, op.operands[0])
    kept = _kept_axes(op, sizes, shape)

    def cell(*at: Expr) -> Expr:
        indices: list[Expr] = [tirx.const(offset, "int32") for offset in offsets]
        for axis, index in zip(kept, at, strict=True):
            indices[axis] = index * strides[axis] + offsets[axis]
        return element(op, source, indices)

    known.values[op.results[0]] = known.compute(op, shape, cell)


def _kept_axes(op: ir.OpView, sizes: Sequence[int], shape: Sequence[int]) -> list[int]:
    """The axes of a slice that its result still has: those of one may be dropped."""
    kept: list[int] = []
    wanted = list(shape)
    for axis, size in enumerate(sizes):
        if wanted and wanted[0] == size and (size != 1 or len(sizes) - axis >= len(wanted)):
            kept.append(axis)
            wanted.pop(0)
    if wanted:
        raise UnimportableError(op, f"its result {list(shape)} is no part of {list(sizes)}")
    return kept


def concat(op: ir.OpView, known: Known) -> None:
    """`tensor.concat`."""
    shape, _ = kind_of(op, op.results[0])
    axis = int(op.attributes["dim"].value)
    parts = [(known.of(op, each), kind_of(op, each)[0][axis]) for each in op.operands]
    ends = np.cumsum([extent for _, extent in parts]).tolist()

    def cell(*at: Expr) -> Expr:
        def part(number: int) -> Expr:
            first = ends[number - 1] if number else 0
            return element(op, parts[number][0], [*at[:axis], at[axis] - first, *at[axis + 1 :]])

        found = part(len(parts) - 1)
        for number in reversed(range(len(parts) - 1)):
            found = tirx.if_then_else(at[axis] < ends[number], part(number), found)
        return found

    known.values[op.results[0]] = known.compute(op, shape, cell)


def _static(op: ir.OpView, name: str) -> list[int]:
    found = [int(each) for each in ir.DenseI64ArrayAttr(op.attributes[name])]
    if _DYNAMIC in found:
        raise UnimportableError(op, f"{name.removeprefix('static_')} are not constant")
    return found


TENSORS: dict[str, Callable[[ir.OpView, Known], None]] = {
    "arith.constant": number,
    "tensor.cast": cast,
    "tensor.collapse_shape": reshape,
    "tensor.concat": concat,
    "tensor.empty": empty,
    "tensor.expand_shape": reshape,
    "tensor.extract_slice": extract_slice,
    "tensor.pad": pad,
    "tensor.splat": splat,
}
"""By operation."""
