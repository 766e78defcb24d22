# SPDX-License-Identifier: Apache-2.0
"""A block of TIR that puts a constant around a tensor, as topi's pads are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tvm import ir as tvm_ir
from tvm import tirx
from tvm.sym import Analyzer

from kope_tvm.mlir.spelling import shape_of


@dataclass(frozen=True)
class Pad:
    """What `tensor.pad` says."""

    source: Any
    into: Any
    low: tuple[int, ...]
    high: tuple[int, ...]
    value: Any
    """A constant."""


def pad_of(store: Any) -> Pad | None:
    """The pad that a block's only statement is; None where it is none."""
    choice = store.value
    if not isinstance(choice, tvm_ir.Call) or not str(choice.op.name).endswith("if_then_else"):
        return None
    condition, load, value = choice.args
    is_plain = isinstance(load, tvm_ir.TensorLoad) and isinstance(
        value, tirx.FloatImm | tirx.IntImm
    )
    if not is_plain or len(load.indices) != len(store.indices):
        return None
    axes = list(zip(store.indices, load.indices, shape_of(load.source), strict=True))
    low = [_shift(at, index) for at, index, _ in axes]
    inside = [_within(at, start, extent) for (at, _, extent), start in zip(axes, low, strict=True)]
    high = [
        whole - start - extent
        for whole, start, (_, _, extent) in zip(shape_of(store.buffer), low, axes, strict=True)
    ]
    if min(*low, *high) < 0 or not _says(condition, store, inside):
        return None
    return Pad(load.source, store.buffer, tuple(low), tuple(high), value)


def _shift(at: Any, index: Any) -> int:
    """By how much the tensor's index lies behind the padded one's; -1 where that varies."""
    found = Analyzer().simplify(at - index)
    return int(found) if isinstance(found, tirx.IntImm) else -1


def _within(at: Any, start: int, extent: int) -> Any:
    return tirx.all(at >= start, at < start + extent)


def _says(condition: Any, store: Any, inside: list[Any]) -> bool:
    """Whether a condition holds where all of these do, and nowhere else."""
    wanted = tirx.all(*inside)
    return _implies(condition, wanted, store) and _implies(wanted, condition, store)


def _implies(premise: Any, conclusion: Any, store: Any) -> bool:
    analyzer = Analyzer()
    for at, extent in zip(store.indices, shape_of(store.buffer), strict=True):
        analyzer.bind(at, tvm_ir.Range(0, extent))
    with analyzer.constraint_scope(premise):
        return all(bool(analyzer.can_prove(each)) for each in _parts(conclusion))


def _parts(condition: Any) -> Iterator[Any]:
    """What a conjunction consists of."""
    if isinstance(condition, tirx.And):
        yield from _parts(condition.a)
        yield from _parts(condition.b)
    else:
        yield condition
