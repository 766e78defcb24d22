# SPDX-License-Identifier: Apache-2.0
"""Copies of buffers and how they lie: cache_*, reindex, set_scope, storage_align."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kope_tvm.plan.argument import Argument, buffer, integer, new_name, text
from kope_tvm.plan.nest import reads_under_condition, realizes
from kope_tvm.plan.primitive import BLOCK, Args, Primitive
from kope_tvm.plan.step_error import StepError
from kope_tvm.plan.workpiece import Workpiece

_SCOPES = ("global", "local")
_GPU_SCOPES = (
    *_SCOPES,
    *("shared", "shared.dyn", "wmma.matrix_a", "wmma.matrix_b", "wmma.accumulator"),
)


def position(regions: Sequence[Any], wanted: str | int, verb: str) -> int:
    """The place of a buffer among those that a block reads or writes."""
    names = [str(region.source.name) for region in regions]
    if isinstance(wanted, int):
        if wanted < len(names):
            return wanted
    elif wanted in names:
        return names.index(wanted)
    raise StepError(
        "buffer", f"not a buffer the block {verb}; it {verb} {', '.join(names) or 'none'}"
    )


def _scope(piece: Workpiece, args: Args) -> str:
    known = _GPU_SCOPES if piece.is_gpu else _SCOPES
    scope = str(args.get("scope", "global"))
    if scope not in known:
        raise StepError("scope", f"expected one of {', '.join(known)} on this target")
    return scope


def _cache_read(piece: Workpiece, args: Args) -> None:
    block, scope = piece.block(args["block"]), _scope(piece, args)
    piece.check_new_block(args.get("into"))
    piece.check_no_vector_around(block)
    at = position(piece.sch.get(block).reads, args["buffer"], "reads")
    if piece.is_decomposed(block):
        _check_one_writer(piece, piece.sch.get(block).reads[at].source)
    piece.name_block(args.get("into"), piece.sch.cache_read(block, at, scope))


def _cache_write(piece: Workpiece, args: Args) -> None:
    block, scope = piece.block(args["block"]), _scope(piece, args)
    piece.check_new_block(args.get("into"))
    piece.check_no_vector_around(block)
    at = position(piece.sch.get(block).writes, args["buffer"], "writes")
    _check_one_writer(piece, piece.sch.get(block).writes[at].source)
    piece.name_block(args.get("into"), piece.sch.cache_write(block, at, scope))


def _reindex(piece: Workpiece, args: Args) -> None:
    block = piece.block(args["block"])
    piece.check_new_block(args.get("into"))
    side, place = region(piece, block, args["buffer"])
    _check_one_writer(piece, source_of(piece, block, args["buffer"]))
    piece.check_alone(block)
    if side == "read" and reads_under_condition(piece.sch.get(block)):
        raise StepError("block", "it reads under a condition, which the copy would not")
    piece.name_block(args.get("into"), piece.sch.reindex(block, (side, place)))


def _check_one_writer(piece: Workpiece, source: Any) -> None:
    """TVM does not ask, and computes something else where a reduction was decomposed."""
    blocks = [one.block for one in realizes(piece.main)]
    writers = [b for b in blocks if any(region.source.same_as(source) for region in b.writes)]
    if len(writers) > 1:
        names = ", ".join(str(block.name_hint) for block in writers)
        raise StepError("buffer", f"{names} write it: put decompose_reduction after this step")


def region(piece: Workpiece, block: Any, wanted: str | int) -> tuple[str, int]:
    """`("read", 0)` or the like; a number counts what the block reads, then what it writes."""
    stmt = piece.sch.get(block)
    place = position([*stmt.reads, *stmt.writes], wanted, "reads or writes")
    num_read = len(stmt.reads)
    return ("read", place) if place < num_read else ("write", place - num_read)


def source_of(piece: Workpiece, block: Any, buffer: str | int) -> Any:
    """The buffer that a block reads or writes under this name."""
    side, place = region(piece, block, buffer)
    stmt = piece.sch.get(block)
    return (stmt.reads if side == "read" else stmt.writes)[place].source


def _set_scope(piece: Workpiece, args: Args) -> None:
    block, scope = piece.block(args["block"]), _scope(piece, args)
    at = position(piece.sch.get(block).writes, args["buffer"], "writes")
    check_own(piece, piece.sch.get(block).writes[at].source)
    piece.sch.set_scope(block, at, scope)


def check_own(piece: Workpiece, source: Any) -> None:
    """Raises StepError for a parameter, whose layout is the caller's."""
    if any(source.same_as(param) for param in piece.main.params):
        how = "cache_read or cache_write it and take the copy"
        raise StepError("buffer", f"{str(source.name)!r} is a parameter of the function: {how}")


def _storage_align(piece: Workpiece, args: Args) -> None:
    block = piece.block(args["block"])
    at = position(piece.sch.get(block).writes, args["buffer"], "writes")
    check_own(piece, piece.sch.get(block).writes[at].source)
    piece.sch.storage_align(block, at, args["axis"], args["factor"], args.get("offset", 0))


_BUFFER = Argument("buffer", buffer)
_SCOPE = Argument("scope", text, is_required=False)
_INTO = Argument("into", new_name, is_required=False)

PRIMITIVES = (
    Primitive("cache_read", "cache", (BLOCK, _BUFFER, _SCOPE, _INTO), _cache_read),
    Primitive("cache_write", "cache", (BLOCK, _BUFFER, _SCOPE, _INTO), _cache_write),
    Primitive("reindex", "layout", (BLOCK, _BUFFER, _INTO), _reindex),
    Primitive("set_scope", "cache", (BLOCK, _BUFFER, Argument("scope", text)), _set_scope),
    Primitive(
        "storage_align",
        "layout",
        (
            BLOCK,
            _BUFFER,
            Argument("axis", integer(-8, 7)),
            Argument("factor", integer(1, 4096)),
            Argument("offset", integer(0, 4096), is_required=False),
        ),
        _storage_align,
    ),
)
