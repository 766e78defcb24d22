# SPDX-License-Identifier: Apache-2.0
"""Whole tiles as one: blockize, tensorize."""

from __future__ import annotations

from tvm.s_tir import TensorIntrin
from tvm.target import codegen

from kope_tvm.plan.argument import Argument, name, new_name
from kope_tvm.plan.nest import has_tail
from kope_tvm.plan.primitive import BLOCK, LOOP, Args, Primitive
from kope_tvm.plan.step_error import StepError
from kope_tvm.plan.workpiece import Workpiece

_PREFIXES = {
    "llvm": ("kope_dot_", "dot_16x4_", "dot_4x4_"),
    "cuda": ("wmma_", "mma_", "dp4a_"),
    "rocm": ("mfma_", "amdgpu_"),
    "metal": ("simdgroup_",),
}
"""TVM's for RVV are left out: they ignore `elem_offset` and compute wrong results."""


def _blockize(piece: Workpiece, args: Args) -> None:
    block = piece.block(args["block"])
    piece.check_new_block(args.get("into"))
    loop = piece.loop(block, args["loop"])
    if has_tail(loop):
        raise StepError(
            "loop", "a split under or around it leaves a tail: take factors that divide"
        )
    outer = piece.sch.blockize(piece.rv(block, loop))
    piece.name_block(args.get("into"), outer)


def _tensorize(piece: Workpiece, args: Args) -> None:
    block = piece.block(args["block"])
    _check_intrinsic(piece, args["intrin"])
    piece.sch.tensorize(piece.rv(block, piece.loop(block, args["loop"])), args["intrin"])


def _check_intrinsic(piece: Workpiece, intrin: str) -> None:
    kind = piece.target.kind.name if piece.target is not None else "llvm"
    prefixes = _PREFIXES.get(kind, ())
    if not intrin.startswith(prefixes or ("-",)):
        known = ", ".join(f"{prefix}*" for prefix in prefixes) or "none"
        raise StepError("intrin", f"not an intrinsic for target {kind}; those: {known}")
    if TensorIntrin.get(intrin, allow_missing=True) is None:
        raise StepError("intrin", "no intrinsic of this name is registered")
    feature = intrin.rpartition("_")[2]
    if intrin.startswith("kope_") and not codegen.target_has_features(feature, piece.target):
        raise StepError("intrin", f"the target lacks {feature}")


PRIMITIVES = (
    Primitive(
        "blockize",
        "tensorize",
        (BLOCK, LOOP, Argument("into", new_name, is_required=False)),
        _blockize,
    ),
    Primitive("tensorize", "tensorize", (BLOCK, LOOP, Argument("intrin", name)), _tensorize),
)
