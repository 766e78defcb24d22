# SPDX-License-Identifier: Apache-2.0
"""Tensor intrinsics that reduce the lanes of one vector by one instruction, sums in order.

Halves of a vector have to be taken apart lane by lane where its length is a machine's own: RVV.
Importing this module registers them: a trace that names one replays only after that.
"""

from __future__ import annotations

from tvm import tirx
from tvm.ir import Expr
from tvm.s_tir import TensorIntrin
from tvm.script import tirx as T

_LANES = (4, 8, 16, 32, 64, 128)
_SCOPES = ("global", "local")
_KINDS = {tirx.Add: "sum", tirx.Max: "max"}


def lane_reduction(body: tirx.Stmt, lanes: int, scope: str) -> str:
    """What a trace calls the reduction of so many lanes, its result in `scope`.

    Empty where there is none: of float32 only, sums and maxima.
    """
    value = getattr(body, "value", None)
    kind = _KINDS.get(type(value))
    is_ours = kind is not None and lanes in _LANES and str(body.buffer.dtype) == "float32"
    return _name(kind, lanes, scope) if kind and is_ours else ""


def lane_sum(lanes: int) -> str:
    """The same of a sum that stays in registers."""
    return _name("sum", lanes, "local")


def _name(kind: str, lanes: int, scope: str) -> str:
    return f"kope_{kind}_{lanes}_float32_{scope}"


def _step(kind: str, before: Expr, part: Expr) -> Expr:
    return T.max(before, part) if kind == "max" else before + part


def _description(kind: str, lanes: int, scope: str) -> tirx.PrimFunc:
    @T.prim_func(s_tir=True)
    def description(parts: T.handle, out: T.handle) -> None:
        p = T.match_buffer(parts, (lanes,), "float32", offset_factor=1, scope="local")
        c = T.match_buffer(out, (1,), "float32", offset_factor=1, scope=scope)
        with T.sblock("root"):
            T.reads(c[0], p[0:lanes])
            T.writes(c[0])
            for k in range(lanes):
                with T.sblock("update"):
                    vk = T.axis.reduce(lanes, k)
                    c[0] = _step(kind, c[0], p[vk])

    return description


def _implementation(kind: str, lanes: int, scope: str) -> tirx.PrimFunc:
    @T.prim_func(s_tir=True)
    def implementation(parts: T.handle, out: T.handle) -> None:
        p = T.match_buffer(parts, (lanes,), "float32", offset_factor=1, scope="local")
        c = T.match_buffer(out, (1,), "float32", offset_factor=1, scope=scope)
        with T.sblock("root"):
            T.reads(c[0], p[0:lanes])
            T.writes(c[0])
            c[0] = _reduced(kind, c[0], p.vload([0], dtype=f"float32x{lanes}"))

    return implementation


def _reduced(kind: str, before: Expr, parts: Expr) -> Expr:
    if kind == "max":
        number = T.llvm_lookup_intrinsic_id("llvm.vector.reduce.fmax")
        return T.max(before, T.call_llvm_pure_intrin(number, parts, dtype="float32"))
    number = T.llvm_lookup_intrinsic_id("llvm.vector.reduce.fadd")
    return T.call_llvm_pure_intrin(number, before, parts, dtype="float32")


for _kind in _KINDS.values():
    for _lanes in _LANES:
        for _scope in _SCOPES:
            _made = (
                _description(_kind, _lanes, _scope),
                _implementation(_kind, _lanes, _scope),
            )
            TensorIntrin.register(_name(_kind, _lanes, _scope), *_made, override=True)
