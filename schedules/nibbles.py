# SPDX-License-Identifier: Apache-2.0
"""A tensor intrinsic for 4-bit weights: a block of 32, unpacked in bytes, times 32 floats.

Two weights share a byte, the even one in its low half; the floats come sorted accordingly, even
ones first. A block has one scale, which multiplies the sum of both halves and not every weight.
Importing this module registers it for both types of indices: a trace that names it replays only
after that.
"""

from __future__ import annotations

from tvm import tirx
from tvm.ir import Expr
from tvm.s_tir import TensorIntrin
from tvm.script import tirx as T

BLOCK = 32
"""Weights that share a scale."""
LANES = BLOCK // 2
NAMES = {"int32": "kope_nibbles_32_float32", "int64": "kope_nibbles_32_float32_int64"}
"""By the type of the function's indices: Relax makes int64 ones, TE int32 ones."""


@T.prim_func(s_tir=True)
def _description(row: T.handle, col: T.handle, scale: T.handle, out: T.handle) -> None:
    a = T.match_buffer(row, (2, 16), "float32", offset_factor=1)
    b = T.match_buffer(col, (16,), "uint8", offset_factor=1)
    s = T.match_buffer(scale, (1,), "float32", offset_factor=1)
    c = T.match_buffer(out, (16,), "float32", offset_factor=1, scope="local")
    with T.sblock("root"):
        T.reads(c[0:16], a[0:2, 0:16], b[0:16], s[0:1])
        T.writes(c[0:16])
        for lane, half in T.grid(16, 2):
            with T.sblock("update"):
                vl, vh = T.axis.remap("SR", [lane, half])
                c[vl] = c[vl] + a[vh, vl] * (
                    T.Cast("float32", (T.Cast("int32", b[vl]) >> (vh * 4) & 15) - 8) * s[0]
                )


@T.prim_func(s_tir=True)
def _wide_description(row: T.handle, col: T.handle, scale: T.handle, out: T.handle) -> None:
    a = T.match_buffer(row, (T.int64(2), T.int64(16)), "float32", offset_factor=1)
    b = T.match_buffer(col, (T.int64(16),), "uint8", offset_factor=1)
    s = T.match_buffer(scale, (T.int64(1),), "float32", offset_factor=1)
    c = T.match_buffer(out, (T.int64(16),), "float32", offset_factor=1, scope="local")
    with T.sblock("root"):
        T.reads(c[0:16], a[0:2, 0:16], b[0:16], s[0:1])
        T.writes(c[0:16])
        for lane, half in T.grid(T.int64(16), T.int64(2)):
            with T.sblock("update"):
                vl, vh = T.axis.remap("SR", [lane, half])
                c[vl] = c[vl] + a[vh, vl] * (
                    T.Cast(
                        "float32", (T.Cast("int32", b[vl]) >> (T.Cast("int32", vh) * 4) & 15) - 8
                    )
                    * s[0]
                )


def _shorts(value: int) -> Expr:
    return T.broadcast(T.int16(value), LANES)


def _flipped(col: tirx.Buffer) -> Expr:
    signs = T.broadcast(T.uint8(0x88), LANES)
    return T.Cast("int16x16", T.reinterpret(col.vload([0], "uint8x16") ^ signs, dtype="int8x16"))


@T.prim_func(s_tir=True)
def _implementation(row: T.handle, col: T.handle, scale: T.handle, out: T.handle) -> None:
    a = T.match_buffer(row, (2, 16), "float32", offset_factor=1)
    b = T.match_buffer(col, (16,), "uint8", offset_factor=1)
    s = T.match_buffer(scale, (1,), "float32", offset_factor=1)
    c = T.match_buffer(out, (16,), "float32", offset_factor=1, scope="local")
    with T.sblock("root"):
        T.reads(c[0:16], a[0:2, 0:16], b[0:16], s[0:1])
        T.writes(c[0:16])
        # Flipped, the top bit of four is their sign: shifts then make numbers from -8 to 7.
        c[T.ramp(T.int32(0), 1, 16)] = c.vload([0], "float32x16") + T.broadcast(s[0], 16) * (
            a.vload([0, 0], "float32x16")
            * T.Cast("float32x16", (_flipped(b) << _shorts(12)) >> _shorts(12))
            + a.vload([1, 0], "float32x16") * T.Cast("float32x16", _flipped(b) >> _shorts(4))
        )


for _index, _described in (("int32", _description), ("int64", _wide_description)):
    TensorIntrin.register(NAMES[_index], _described, _implementation, override=True)
