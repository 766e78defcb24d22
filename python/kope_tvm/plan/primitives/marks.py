# SPDX-License-Identifier: Apache-2.0
"""How a loop is run: vectorize, unroll, parallel, bind, annotate."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import tvm_ffi
from tvm.tirx import For, ForKind

from kope_tvm.plan.argument import Argument, annotation, choice, name
from kope_tvm.plan.nest import Loop, blocks_under
from kope_tvm.plan.primitive import BLOCK, LOOP, Args, Primitive
from kope_tvm.plan.step_error import StepError
from kope_tvm.plan.workpiece import Workpiece

MOST_LANES = 128
MOST_UNROLLED = 64
_MOST_COPIES = 1024
"""Of one block by the unrolled loops around it."""
_THREADS = tuple(
    f"{kind}.{axis}" for kind in ("blockIdx", "threadIdx", "vthread") for axis in "xyz"
)
_LOOP_KEYS = {
    "pragma_auto_unroll_max_step",
    "pragma_unroll_explicit",
    "software_pipeline_async_stages",
    "software_pipeline_order",
    "software_pipeline_stage",
}
_LIST_KEYS = {key for key in _LOOP_KEYS if key.startswith("software_pipeline")}
_BLOCK_KEYS = {"double_buffer_scope"}


def _marked(piece: Workpiece, args: Args, check: Callable[[Any, Loop], None]) -> Any:
    """The loop to be marked, once nothing speaks against it."""
    block = piece.block(args["block"])
    loop = piece.loop(block, args["loop"])
    if loop.mode != "serial":
        raise StepError("loop", f"the loop is {loop.mode} already")
    check(block, loop)
    return piece.rv(block, loop)


def _check_free(piece: Workpiece, block: Any, loop: Loop, what: str) -> None:
    """Its iterations must not depend on each other."""
    if loop.kind in ("reduce", "mixed"):
        free = [one.name for one in piece.loops(block) if one.kind == "spatial"]
        raise StepError(
            "loop", f"a reduction loop cannot be {what}; spatial: {' '.join(free) or 'none'}"
        )
    if piece.is_decomposed(block):
        raise StepError("loop", "decompose_reduction came before: put this step before it")


def _check_nested(loop: Loop, mode: str) -> None:
    """No loop around or within it may be run so; blocks made of tiles lie between some of them."""
    found: list[Any] = []
    tvm_ffi.structural_walk(loop.sref.stmt.body, [(For, found.append)], order="pre")
    above = loop.sref.parent
    while above is not None:
        found += [above.stmt] if isinstance(above.stmt, For) else []
        above = above.parent
    marked = next((one for one in found if ForKind(one.kind).name.lower() == mode), None)
    if marked is not None:
        raise StepError("loop", f"loop {str(marked.loop_var.name)!r} of the nest is {mode} already")


def _vectorize(piece: Workpiece, args: Args) -> None:
    def check(block: Any, loop: Loop) -> None:
        if not 0 < loop.extent <= MOST_LANES:
            size = f"{loop.extent} lanes are too many" if loop.extent > 0 else "it is not constant"
            raise StepError(
                "loop", f"{size}, at most {MOST_LANES}: split it and take the inner one"
            )
        _check_free(piece, block, loop, "vectorized")
        if len(under := blocks_under(loop)) > 1:
            names = ", ".join(str(one.name_hint) for one in under)
            raise StepError("loop", f"{names} share it: vectorize a loop of each of its own")
        _check_nested(loop, "vectorized")

    piece.sch.vectorize(_marked(piece, args, check))


def _parallel(piece: Workpiece, args: Args) -> None:
    def check(block: Any, loop: Loop) -> None:
        _check_free(piece, block, loop, "parallel")
        _check_nested(loop, "parallel")

    piece.sch.parallel(_marked(piece, args, check))


def _unroll(piece: Workpiece, args: Args) -> None:
    def check(block: Any, loop: Loop) -> None:
        if not 0 < loop.extent <= MOST_UNROLLED:
            size = f"{loop.extent} copies are too many" if loop.extent > 0 else "it is not constant"
            raise StepError(
                "loop", f"{size}, at most {MOST_UNROLLED}: split it and take the inner one"
            )
        others = prod(one.extent for one in piece.loops(block) if one.mode == "unrolled")
        if others * loop.extent > _MOST_COPIES:
            raise StepError(
                "loop",
                f"unrolled loops would copy the block {others * loop.extent} times, "
                f"at most {_MOST_COPIES}",
            )

    piece.sch.unroll(_marked(piece, args, check))


def _bind(piece: Workpiece, args: Args) -> None:
    if not piece.is_gpu:
        raise StepError("thread", "this target has no threads to bind; use parallel and vectorize")
    piece.sch.bind(_marked(piece, args, lambda block, loop: None), args["thread"])


def _annotate(piece: Workpiece, args: Args) -> None:
    block, key, value = piece.block(args["block"]), args["key"], args["value"]
    if key in _LIST_KEYS and not piece.is_gpu:
        raise StepError("key", "software pipelines are for GPUs")
    if (key in _LIST_KEYS) != isinstance(value, list):
        raise StepError("value", f"{key} takes {'a list' if key in _LIST_KEYS else 'an integer'}")
    if key in _BLOCK_KEYS:
        if value >= len(piece.sch.get(block).writes):
            raise StepError("value", "expected the place of a buffer that the block writes")
        piece.sch.annotate(block, key, value)
        return
    if "loop" not in args:
        raise StepError("key", "it belongs to a loop: give one by `loop`")
    piece.sch.annotate(piece.rv(block, piece.loop(block, args["loop"])), key, value)


PRIMITIVES = (
    Primitive("vectorize", "vectorize", (BLOCK, LOOP), _vectorize),
    Primitive("parallel", "parallel", (BLOCK, LOOP), _parallel),
    Primitive("unroll", "unroll", (BLOCK, LOOP), _unroll),
    Primitive("bind", "bind", (BLOCK, LOOP, Argument("thread", choice(_THREADS))), _bind),
    Primitive(
        "annotate",
        "annotate",
        (
            BLOCK,
            Argument("loop", name, is_required=False),
            Argument("key", choice(sorted(_LOOP_KEYS | _BLOCK_KEYS))),
            Argument("value", annotation),
        ),
        _annotate,
    ),
)
