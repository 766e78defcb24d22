# SPDX-License-Identifier: Apache-2.0
"""Functions that each hold what one pass looks for."""

from __future__ import annotations

from tvm.script import tirx as T

F32 = "float32"


@T.prim_func(s_tir=True)
def half_written(A: T.Buffer((80, 4), F32), C: T.Buffer((80, 4), F32)) -> None:
    for i, j in T.grid(64, 4):
        with T.sblock("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj]


@T.prim_func(s_tir=True)
def every_other(A: T.Buffer((16,), F32), C: T.Buffer((16,), F32)) -> None:
    for i in range(8):
        with T.sblock("C"):
            vi = T.axis.spatial(8, i)
            C[vi * 2] = A[vi * 2]


@T.prim_func(s_tir=True)
def two_halves(A: T.Buffer((16,), F32), C: T.Buffer((16,), F32)) -> None:
    for i in range(8):
        with T.sblock("C"):
            vi = T.axis.spatial(8, i)
            C[vi * 2] = A[vi * 2]
            C[vi * 2 + 1] = A[vi * 2 + 1]


@T.prim_func(s_tir=True)
def fused_with_tail(A: T.Buffer((7, 10), F32), C: T.Buffer((7, 10), F32)) -> None:
    for f, g in T.grid(9, 8):
        with T.sblock("C"):
            vi = T.axis.spatial(7, (f * 8 + g) // 10)
            vj = T.axis.spatial(10, (f * 8 + g) % 10)
            T.where(f * 8 + g < 70)
            C[vi, vj] = A[vi, vj]


@T.prim_func(s_tir=True)
def scattered(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")) -> None:
    for i in range(8):
        with T.sblock("C"):
            vi = T.axis.spatial(8, i)
            C[A[vi]] = vi


@T.prim_func(s_tir=True)
def never_started(A: T.Buffer((4, 8), F32), C: T.Buffer((4,), F32)) -> None:
    for i, k in T.grid(4, 8):
        with T.sblock("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            C[vi] = C[vi] + A[vi, vk]


@T.prim_func(s_tir=True)
def init_skipped(A: T.Buffer((4, 8), F32), C: T.Buffer((4,), F32)) -> None:
    for i, k in T.grid(4, 7):
        with T.sblock("C"):
            vi = T.axis.spatial(4, i)
            vk = T.axis.reduce(8, k + 1)
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk]


@T.prim_func(s_tir=True)
def started_by_condition(A: T.Buffer((4, 8), F32), C: T.Buffer((4,), F32)) -> None:
    for i, k in T.grid(4, 8):
        with T.sblock("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            C[vi] = T.if_then_else(vk == 0, T.float32(0), C[vi]) + A[vi, vk]


@T.prim_func(s_tir=True)
def temporary_tail(A: T.Buffer((16,), F32), C: T.Buffer((16,), F32)) -> None:
    temp = T.sblock_alloc_buffer((16,), F32)
    for i in range(12):
        with T.sblock("temp"):
            vi = T.axis.spatial(12, i)
            temp[vi] = A[vi] * T.float32(2)
    for i in range(16):
        with T.sblock("C"):
            vi = T.axis.spatial(16, i)
            C[vi] = temp[vi]


@T.prim_func(s_tir=True)
def beyond(A: T.Buffer((16,), F32), C: T.Buffer((16,), F32)) -> None:
    for i in range(16):
        with T.sblock("C"):
            vi = T.axis.spatial(16, i)
            C[vi] = A[vi + 1]


@T.prim_func(s_tir=True)
def padded(A: T.Buffer((16,), F32), C: T.Buffer((18,), F32)) -> None:
    for i in range(18):
        with T.sblock("C"):
            vi = T.axis.spatial(18, i)
            C[vi] = T.if_then_else(vi >= 1 and vi < 17, A[vi - 1], T.float32(0))


@T.prim_func(s_tir=True)
def input_zeroed(A: T.Buffer((16,), F32), C: T.Buffer((16,), F32)) -> None:
    for i in range(16):
        with T.sblock("C"):
            vi = T.axis.spatial(16, i)
            C[vi] = A[vi]
            A[vi] = T.float32(0)


@T.prim_func(s_tir=True)
def raced(A: T.Buffer((4, 8), F32), C: T.Buffer((4,), F32)) -> None:
    for i in range(4):
        with T.sblock("init"):
            vi = T.axis.spatial(4, i)
            C[vi] = T.float32(0)
    for k in T.parallel(8):
        for i in range(4):
            with T.sblock("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                C[vi] = C[vi] + A[vi, vk]


@T.prim_func(s_tir=True)
def own_temporary(A: T.Buffer((4, 8), F32), C: T.Buffer((4,), F32)) -> None:
    total = T.sblock_alloc_buffer((1,), F32)
    for i in T.parallel(4):
        with T.sblock("start"):
            vi = T.axis.spatial(4, i)
            total[0] = T.float32(0)
        for k in range(8):
            with T.sblock("total"):
                vi, vk = T.axis.remap("SR", [i, k])
                total[0] = total[0] + A[vi, vk]
        with T.sblock("C"):
            vi = T.axis.spatial(4, i)
            C[vi] = total[0]


@T.prim_func(s_tir=True)
def foreign(A: T.Buffer((16,), F32), C: T.Buffer((16,), F32)) -> None:
    for i in range(16):
        with T.sblock("C"):
            vi = T.axis.spatial(16, i)
            T.reads(A[vi])
            T.writes(C[vi])
            C[vi] = T.exp(T.call_extern(F32, "expf", A[vi]))
            T.evaluate(T.call_extern("int32", "memcpy", T.address_of(C[0]), A.data, 64))


@T.prim_func(s_tir=True)
def narrowed(A: T.Buffer((4, 8), F32), C: T.Buffer((4,), F32)) -> None:
    total = T.sblock_alloc_buffer((4,), "float16")
    for i, k in T.grid(4, 8):
        with T.sblock("total"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                total[vi] = T.float16(0)
            total[vi] = total[vi] + T.Cast("float16", A[vi, vk])
    for i in range(4):
        with T.sblock("C"):
            vi = T.axis.spatial(4, i)
            C[vi] = T.Cast(F32, total[vi])


@T.prim_func(s_tir=True)
def branched(A: T.Buffer((16,), F32), B: T.Buffer((16,), F32), C: T.Buffer((16,), F32)) -> None:
    seen = T.sblock_alloc_buffer((1,), F32)
    with T.sblock("seen"):
        seen[0] = A[0] + T.float32(1)
    for i in range(16):
        with T.sblock("C"):
            vi = T.axis.spatial(16, i)
            C[vi] = T.Select(B[vi] > T.float32(0), B[vi], T.float32(0))
            if seen[0] == T.float32(1):
                C[vi] = T.float32(0)


@T.prim_func(s_tir=True)
def hidden(A: T.Buffer((16,), F32), C: T.Buffer((16,), F32)) -> None:
    for i in T.serial(16, annotations={"pragma_import_c": "void f() {}"}):
        with T.sblock("C"):
            vi = T.axis.spatial(16, i)
            T.reads()
            T.writes(C[vi])
            T.sblock_attr({"double_buffer_scope": 0})
            C[vi] = A[vi]
