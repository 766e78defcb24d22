# SPDX-License-Identifier: Apache-2.0
"""Small kernels for the tests of the measuring pool: a right one, a wrong one, some that die."""

from __future__ import annotations

from tvm.script import tirx as T


@T.prim_func(s_tir=True)
def double(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")) -> None:
    T.func_attr({"global_symbol": "main"})
    for i in range(64):
        with T.sblock("B"):
            vi = T.axis.spatial(64, i)
            B[vi] = A[vi] * T.float32(2)


@T.prim_func(s_tir=True)
def triple(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")) -> None:
    T.func_attr({"global_symbol": "main"})
    for i in range(64):
        B[i] = A[i] * T.float32(3)


@T.prim_func(s_tir=True)
def aborting(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")) -> None:
    T.func_attr({"global_symbol": "main"})
    B[0] = A[0]
    T.evaluate(T.call_extern("int32", "abort"))


@T.prim_func(s_tir=True)
def leaving(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")) -> None:
    T.func_attr({"global_symbol": "main"})
    B[0] = A[0]
    T.evaluate(T.call_extern("int32", "exit", 0))


@T.prim_func(s_tir=True)
def endless(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")) -> None:
    T.func_attr({"global_symbol": "main"})
    B[0] = T.float32(0)
    while B[0] < T.float32(1):
        B[0] = A[0] * T.float32(0)
