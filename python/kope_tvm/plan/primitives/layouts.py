# SPDX-License-Identifier: Apache-2.0
"""Other layouts and shapes of buffers: transform_layout, pad_einsum."""

from __future__ import annotations

from typing import Any

from tvm.ir.expr import TensorLoad
from tvm.tirx import Add, BufferStore, Cast, IntImm, Mul

from kope_tvm.plan.argument import Argument, buffer, integers, number, text
from kope_tvm.plan.index_map import index_map
from kope_tvm.plan.primitive import BLOCK, Args, Primitive
from kope_tvm.plan.primitives.caches import check_own, region, source_of
from kope_tvm.plan.step_error import StepError
from kope_tvm.plan.workpiece import Workpiece

_MOST_PADDING = 1024


def _transform_layout(piece: Workpiece, args: Args) -> None:
    block = piece.block(args["block"])
    source = source_of(piece, block, args["buffer"])
    check_own(piece, source)
    mapped = index_map(args["map"], shape_of(source), may_pad="pad" in args)
    place = region(piece, block, args["buffer"])
    piece.sch.transform_layout(block, place, mapped, pad_value=_pad(args, source))


def shape_of(source: Any) -> tuple[int, ...]:
    """Of a buffer; -1 where a dimension is not constant."""
    return tuple(int(dim) if isinstance(dim, IntImm) else -1 for dim in source.shape)


def _pad(args: Args, source: Any) -> int | float | None:
    if "pad" not in args:
        return None
    is_float = "float" in str(source.dtype)
    return float(args["pad"]) if is_float else int(args["pad"])


def _pad_einsum(piece: Workpiece, args: Args) -> None:
    block, padding = piece.block(args["block"]), args["padding"]
    iters = [str(one.var.name) for one in piece.sch.get(block).iter_vars]
    if len(padding) != len(iters):
        raise StepError("padding", f"expected {len(iters)} integers, one for each of {iters}")
    piece.check_alone(block)
    if not _sums_products(piece.sch.get(block)):
        raise StepError("block", "only a sum of products may be padded with zeros")
    piece.sch.pad_einsum(block, padding)


def _sums_products(block: Any) -> bool:
    """Whether its update is `C = C + A * B * ...`, where a zero adds nothing."""
    update = block.body
    if not (isinstance(update, BufferStore) and isinstance(update.value, Add)):
        return False
    total, term = update.value.a, update.value.b
    is_total = isinstance(total, TensorLoad) and total.source.same_as(update.buffer)
    return is_total and _is_product(term)


def _is_product(term: Any) -> bool:
    if isinstance(term, Mul):
        return _is_product(term.a) and _is_product(term.b)
    return isinstance(term.value if isinstance(term, Cast) else term, TensorLoad)


PRIMITIVES = (
    Primitive(
        "transform_layout",
        "layout",
        (
            BLOCK,
            Argument("buffer", buffer),
            Argument("map", text),
            Argument("pad", number, is_required=False),
        ),
        _transform_layout,
    ),
    Primitive(
        "pad_einsum",
        "layout",
        (BLOCK, Argument("padding", integers(1, _MOST_PADDING))),
        _pad_einsum,
    ),
)
