# SPDX-License-Identifier: Apache-2.0
"""Loops made out of loops: split, fuse, reorder, add_unit_loop.

`merge` is left out: TVM crashes on loops of one nest, and does not ask what lies between two.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from kope_tvm.plan.argument import Argument, factors, name, names, new_name, new_names
from kope_tvm.plan.nest import Loop
from kope_tvm.plan.primitive import BLOCK, LOOP, Args, Primitive
from kope_tvm.plan.step_error import StepError
from kope_tvm.plan.workpiece import Workpiece
from kope_tvm.space import divisors

_LEAST_INNERMOST = 64
"""How far a search may widen the innermost factor of a tile whose plan has it smaller."""
_MOST_SHOWN = 12


def whole_factors(extent: int, given: Sequence[int]) -> list[int]:
    """The factors with -1 worked out; raises StepError where they do not fit the extent."""
    rest = prod(factor for factor in given if factor != -1)
    if extent < 0:
        raise StepError("factors", "the loop extent is not constant: leave one factor -1")
    found = [factor if factor != -1 else max(1, -(-extent // rest)) for factor in given]
    product = prod(found)
    if product < extent:
        shown = " ".join(map(str, divisors(extent)[:_MOST_SHOWN]))
        reason = f"factors multiply to {product}, the loop extent is {extent}"
        raise StepError("loop", f"{reason}; it divides by {shown}; one factor may be -1")
    inner = product // found[0]
    if inner >= max(extent, 1) * 2 or (found[0] - 1) * inner >= extent > 0:
        fit = f"; {[-1, *found[1:]]} with -1 for the rest fits" if inner <= extent else ""
        reason = f"factors multiply to {product}, the loop extent is {extent}: whole iterations"
        raise StepError("loop", f"{reason} would be empty{fit}")
    return found


def _split(piece: Workpiece, args: Args) -> None:
    block = piece.block(args["block"])
    loop = piece.loop(block, args["loop"])
    given: list[int] = args["factors"]
    _check_serial([loop])
    default = [f"{loop.name}_{number}" for number in range(len(given))]
    called = piece.new_names(block, args.get("into"), default, [loop])
    rv = piece.rv(block, loop)
    piece.name_loops(called, piece.sch.split(rv, _decided(piece, rv, loop, given)))


def _decided(piece: Workpiece, rv: Any, loop: Loop, given: list[int]) -> list[Any]:
    """A knob where the factors divide the extent, so that a search may turn the tile later."""
    if loop.extent < 0 and -1 in given:
        return [factor if factor != -1 else None for factor in given]
    whole = whole_factors(loop.extent, given)
    if prod(whole) != loop.extent:
        return whole
    widest = max(_LEAST_INNERMOST, whole[-1])
    return list(piece.sch.sample_perfect_tile(rv, len(whole), widest, decision=whole))


def _check_serial(loops: Sequence[Loop]) -> None:
    """TVM would drop the mark without a word."""
    marked = next((loop for loop in loops if loop.mode != "serial"), None)
    if marked:
        reason = f"{marked.name!r} is {marked.mode} already"
        raise StepError("loop", f"{reason}: split and fuse before that")


def _fuse(piece: Workpiece, args: Args) -> None:
    block = piece.block(args["block"])
    loops = [piece.loop(block, name, "loops") for name in args["loops"]]
    _check_neighbours(piece.loops(block), loops)
    _check_serial(loops)
    default = ["_".join(loop.name for loop in loops) + "_fused"]
    into = [args["into"]] if "into" in args else None
    called = piece.new_names(block, into, default, loops)
    fused = piece.sch.fuse(*[piece.rv(block, loop) for loop in loops])
    piece.name_loops(called, [fused])


def _check_neighbours(nest: Sequence[Loop], loops: Sequence[Loop]) -> None:
    if len(loops) < 2:
        raise StepError("loops", "fusing needs two loops or more")
    order = [loop.name for loop in nest]
    places = [order.index(loop.name) for loop in loops]
    if places != list(range(places[0], places[0] + len(places))):
        reason = "only neighbours fuse, outermost first"
        raise StepError("loops", f"{reason}; the nest is {' '.join(order)}: reorder before")


def _reorder(piece: Workpiece, args: Args) -> None:
    block = piece.block(args["block"])
    loops = [piece.loop(block, name, "loops") for name in args["loops"]]
    if len(loops) > 1:
        piece.sch.reorder(*[piece.rv(block, loop) for loop in loops])


def _add_unit_loop(piece: Workpiece, args: Args) -> None:
    block = piece.block(args["block"])
    called = piece.new_names(block, [args["into"]] if "into" in args else None, ["unit"], [])
    above = piece.rv(block, piece.loop(block, args["loop"])) if "loop" in args else block
    piece.name_loops(called, [piece.sch.add_unit_loop(above)])


_INTO = Argument("into", new_name, is_required=False)
_LOOPS = Argument("loops", names)

PRIMITIVES = (
    Primitive(
        "split",
        "tile",
        (BLOCK, LOOP, Argument("factors", factors), Argument("into", new_names, is_required=False)),
        _split,
    ),
    Primitive("fuse", "order", (BLOCK, _LOOPS, _INTO), _fuse),
    Primitive("reorder", "order", (BLOCK, _LOOPS), _reorder),
    Primitive(
        "add_unit_loop",
        "order",
        (BLOCK, Argument("loop", name, is_required=False), _INTO),
        _add_unit_loop,
    ),
)
