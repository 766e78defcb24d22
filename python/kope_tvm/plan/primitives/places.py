# SPDX-License-Identifier: Apache-2.0
"""Where a block is computed: under a loop of another, or within it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kope_tvm.plan.argument import Argument, name
from kope_tvm.plan.nest import Loop, blocks_under, reads_under_condition
from kope_tvm.plan.primitive import BLOCK, Args, Primitive
from kope_tvm.plan.step_error import StepError
from kope_tvm.plan.workpiece import Workpiece


def _at(piece: Workpiece, args: Args) -> tuple[Any, Any, Loop]:
    """The block to be moved, the block whose loop it goes under, and that loop."""
    block = piece.block(args["block"])
    owner = args.get("of") or _owner(piece, args)
    other = piece.block(owner, "of")
    if piece.sch.get_sref(other).same_as(piece.sch.get_sref(block)):
        raise StepError("of", "a block cannot be computed at its own loop")
    loop = piece.loop(other, args["at"], "at")
    nest = piece.loops(other)
    vector = [one.name for one in nest[: nest.index(loop) + 1] if one.mode == "vectorized"]
    if vector:
        raise StepError("at", f"{vector[0]!r} is vectorized: place blocks before that")
    return block, other, loop


def _owner(piece: Workpiece, args: Args) -> str:
    """The only other block with such a loop."""
    others = [one for one in piece.known_blocks if one != args["block"]]
    found = [one for one in others if args["at"] in {loop.name for loop in _loops(piece, one)}]
    srefs = [_loop(piece, one, args["at"]).sref for one in found]
    if found and all(sref.same_as(srefs[0]) for sref in srefs):
        return found[0]
    if not found:
        nests = (f"{one}: {' '.join(loop.name for loop in _loops(piece, one))}" for one in others)
        raise StepError("at", f"no other block has such a loop; {'; '.join(nests)}")
    raise StepError("at", f"blocks {', '.join(found)} have such a loop: say which by `of`")


def _loops(piece: Workpiece, block: str) -> Any:
    return piece.loops(piece.block(block))


def _loop(piece: Workpiece, block: str, loop: str) -> Any:
    return piece.loop(piece.block(block), loop)


def _compute_at(piece: Workpiece, args: Args) -> None:
    block, other, loop = _at(piece, args)
    piece.sch.compute_at(block, piece.rv(other, loop))


def _reverse_compute_at(piece: Workpiece, args: Args) -> None:
    block, other, loop = _at(piece, args)
    nest = piece.loops(other)
    reduced = [one.name for one in nest[: nest.index(loop) + 1] if one.kind == "reduce"]
    if reduced:
        reason = f"it lies in reduction loop {reduced[0]!r}, where the sum is not complete"
        raise StepError("at", f"{reason}: take a loop outside of that")
    if reads_under_condition(piece.sch.get(block)):
        raise StepError("block", "what it adds around its producer's values would be lost")
    under = blocks_under(loop)
    if _buffers([piece.sch.get(block)], "writes") & _buffers(under, "reads"):
        raise StepError("at", "its consumer is there: a producer moves by compute_at")
    if not _buffers([piece.sch.get(block)], "reads") & _buffers(under, "writes"):
        raise StepError("at", "nothing that it reads is made there: take a loop of its producer")
    piece.sch.reverse_compute_at(block, piece.rv(other, loop))


def _buffers(blocks: Sequence[Any], side: str) -> set[str]:
    return {str(region.source.name) for block in blocks for region in getattr(block, side)}


def _inline(primitive: str) -> Callable[[Workpiece, Args], None]:
    return lambda piece, args: getattr(piece.sch, primitive)(piece.block(args["block"]))


_PLACE = (BLOCK, Argument("at", name), Argument("of", name, is_required=False))

PRIMITIVES = (
    Primitive("compute_at", "place", _PLACE, _compute_at),
    Primitive("reverse_compute_at", "place", _PLACE, _reverse_compute_at),
    *(
        Primitive(primitive, "fuse", (BLOCK,), _inline(primitive))
        for primitive in ("compute_inline", "reverse_compute_inline")
    ),
)
