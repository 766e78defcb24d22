# SPDX-License-Identifier: Apache-2.0
"""Reductions taken apart: decompose_reduction, rfactor, decompose_padding."""

from __future__ import annotations

from typing import Any

from kope_tvm.plan.argument import Argument, integer, new_name
from kope_tvm.plan.nest import Loop
from kope_tvm.plan.primitive import BLOCK, LOOP, Args, Primitive
from kope_tvm.plan.step_error import StepError
from kope_tvm.plan.workpiece import Workpiece


def _decompose_reduction(piece: Workpiece, args: Args) -> None:
    block, loop = _reduction(piece, args)
    nest = piece.loops(block)
    outside = [one.name for one in nest[: nest.index(loop)] if one.kind in ("reduce", "mixed")]
    if outside:
        reason = f"reduction loop {outside[0]!r} is outside of it"
        raise StepError("loop", f"{reason}; give {outside[0]!r} or a loop around it")
    init = piece.sch.decompose_reduction(block, piece.rv(block, loop))
    piece.name_block(args.get("into"), init)
    _name_init_loops(piece, nest, init)


def _reduction(piece: Workpiece, args: Args) -> tuple[Any, Loop]:
    block = piece.block(args["block"])
    piece.check_new_block(args.get("into"))
    if piece.sch.get(block).init is None:
        is_done = piece.is_decomposed(block)
        raise StepError("block", "it was decomposed before" if is_done else "it is not a reduction")
    return block, piece.loop(block, args["loop"])


def _name_init_loops(piece: Workpiece, nest: tuple[Loop, ...], init: Any) -> None:
    """Copies of loops that a step named keep that name with `_init` behind."""
    named = {f"{loop.var}_init": f"{loop.name}_init" for loop in nest if loop.name != loop.var}
    for loop in piece.loops(init):
        if loop.name in named:
            piece.name_loops([named[loop.name]], [piece.rv(init, loop)])


def _rfactor(piece: Workpiece, args: Args) -> None:
    block, loop = _reduction(piece, args)
    if loop.kind != "reduce":
        found = [one.name for one in piece.loops(block) if one.kind == "reduce"]
        raise StepError("loop", f"it is {loop.kind}; reduction loops: {' '.join(found) or 'none'}")
    factored = piece.sch.rfactor(piece.rv(block, loop), args.get("axis", 0))
    piece.name_block(args.get("into"), factored)


def _decompose_padding(piece: Workpiece, args: Args) -> None:
    block = piece.block(args["block"])
    piece.check_new_block(args.get("into"))
    piece.check_alone(block)
    loop = piece.rv(block, piece.loop(block, args["loop"]))
    piece.name_block(args.get("into"), piece.sch.decompose_padding(block, loop))


_INTO = Argument("into", new_name, is_required=False)
_AXIS = Argument("axis", integer(-8, 8), is_required=False)

PRIMITIVES = (
    Primitive("decompose_reduction", "reduce", (BLOCK, LOOP, _INTO), _decompose_reduction),
    Primitive("rfactor", "reduce", (BLOCK, LOOP, _AXIS, _INTO), _rfactor),
    Primitive("decompose_padding", "reduce", (BLOCK, LOOP, _INTO), _decompose_padding),
)
