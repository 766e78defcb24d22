# SPDX-License-Identifier: Apache-2.0
"""The C++ features agree with the Python reference, and both with values worked out by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tvm
from features_reference import features_reference
from tvm import relax, te
from tvm.script import tirx as T

from kope_tvm.features import features
from kope_tvm.task import Features

F32 = "float32"


def legalized(build: Callable[..., Any], *shapes: tuple[int, ...], dtype: str = F32) -> Any:
    """The one PrimFunc that LegalizeOps makes of a Relax operator."""
    inputs = [relax.Var(f"x{i}", relax.TensorType(shape, dtype)) for i, shape in enumerate(shapes)]
    builder = relax.BlockBuilder()
    with builder.function("main", inputs):
        builder.emit_func_output(builder.emit(build(*inputs)))
    mod = relax.transform.LegalizeOps()(builder.get())
    (func,) = (func for func in mod.functions.values() if isinstance(func, tvm.tirx.PrimFunc))
    return func


def matmul(m: int, n: int, k: int, dtype: str = F32, out_dtype: str = F32) -> Any:
    A, B = te.placeholder((m, k), dtype, name="A"), te.placeholder((k, n), dtype, name="B")
    r = te.reduce_axis((0, k), name="r")
    C = te.compute(
        (m, n),
        lambda i, j: te.sum(A[i, r].astype(out_dtype) * B[r, j].astype(out_dtype), axis=r),
        name="C",
    )
    return te.create_prim_func([A, B, C])


def batch_matmul() -> Any:
    A, B = te.placeholder((3, 4, 8), name="A"), te.placeholder((3, 8, 5), name="B")
    r = te.reduce_axis((0, 8), name="r")
    C = te.compute((3, 4, 5), lambda b, i, j: te.sum(A[b, i, r] * B[b, r, j], axis=r), name="C")
    return te.create_prim_func([A, B, C])


def conv2d(stride: int = 1, groups: int = 1) -> Any:
    return legalized(
        lambda x, w: relax.op.nn.conv2d(x, w, padding=1, strides=stride, groups=groups),
        (1, 4, 8, 8),
        (8 if groups < 4 else 4, 4 // groups, 3, 3),
    )


def exp_chain() -> Any:
    A = te.placeholder((4, 8), name="A")
    B = te.compute((4, 8), lambda i, j: te.exp(A[i, j] * 2.0), name="B")
    C = te.compute((4, 8), lambda i, j: te.max(B[i, j], tvm.tirx.const(0.0, F32)), name="C")
    return te.create_prim_func([A, C])


def exp_over(rows: Any) -> Any:
    A = te.placeholder((rows, 4), name="A")
    return te.create_prim_func([A, te.compute((rows, 4), lambda i, j: te.exp(A[i, j]), name="B")])


def max_to_scalar() -> Any:
    A = te.placeholder((6, 7), name="A")
    i, j = te.reduce_axis((0, 6), name="i"), te.reduce_axis((0, 7), name="j")
    return te.create_prim_func([A, te.compute((), lambda: te.max(A[i, j], axis=[i, j]), name="B")])


@T.prim_func(s_tir=True)
def searchsorted(
    A: T.Buffer((10,), "int32"), Q: T.Buffer((5,), "int32"), R: T.Buffer((5,), "int32")
) -> None:
    for i in range(5):
        with T.sblock("search"):
            vi = T.axis.spatial(5, i)
            T.reads(A[0:10], Q[vi])
            T.writes(R[vi])
            low = T.sblock_alloc_buffer((1,), "int32", scope="local")
            low[0] = 0
            while low[0] < 10 and A[low[0]] < Q[vi]:
                low[0] = low[0] + 1
            R[vi] = low[0]


@T.prim_func(s_tir=True)
def scaled_by_argument(A: T.Buffer((8,), F32), n: T.int32, B: T.Buffer((8,), F32)) -> None:
    for i in range(8):
        with T.sblock("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = T.if_then_else(vi < n, A[vi] * T.float32(2), T.float32(0))


@T.prim_func
def no_blocks(A: T.Buffer((4,), F32)) -> None:
    for i in T.serial(4):
        A[i] = A[i] * T.float32(2)


def strided() -> Any:
    """Along the innermost loop: a column, a row backwards, one element, and a row split in two."""
    shapes = ((8, 6), (6, 8), (6,), (6, 2, 4))
    names = zip(shapes, "ABCD", strict=True)
    A, B, C, D = (te.placeholder(shape, name=name) for shape, name in names)
    E = te.compute(
        (6, 8), lambda i, j: A[j, i] + B[i, 7 - j] + C[i] + D[i, j // 4, j % 4], name="E"
    )
    return te.create_prim_func([A, B, C, D, E])


nn = relax.op.nn
FUNCTIONS: dict[str, tuple[Callable[[], Any], Features]] = {
    "matmul": (
        lambda: matmul(4, 5, 8),
        Features(
            "matmul", (4, 5), (8,), (F32,) * 3, 2.0 * 4 * 5 * 8, 4.0 * (32 + 40 + 20), 1, (1, 5)
        ),
    ),
    "int8 matmul": (
        lambda: matmul(4, 5, 8, "int8", "int32"),
        Features(
            "matmul", (4, 5), (8,), ("int8", "int8", "int32"), 320.0, 32.0 + 40 + 80, 1, (1, 5)
        ),
    ),
    "batch matmul": (
        batch_matmul,
        Features("matmul", (3, 4, 5), (8,), (F32,) * 3, 960.0, 4.0 * (96 + 120 + 60), 1, (1, 5)),
    ),
    "conv2d": (
        conv2d,
        Features(
            "conv2d",
            (1, 8, 8, 8),
            (4, 3, 3),
            (F32,) * 3,
            2.0 * 512 * 36,
            4.0 * (256 + 288 + 512),
            2,
            (1, 1),
        ),
    ),
    "grouped conv2d": (
        lambda: conv2d(groups=2),
        Features(
            "conv2d",
            (1, 8, 8, 8),
            (2, 3, 3),
            (F32,) * 3,
            2.0 * 512 * 18,
            4.0 * (256 + 144 + 512),
            2,
            (1, 1),
        ),
    ),
    "depthwise": (
        lambda: conv2d(stride=2, groups=4),
        Features(
            "depthwise",
            (1, 4, 4, 4),
            (1, 3, 3),
            (F32,) * 3,
            2.0 * 64 * 9,
            4.0 * (256 + 36 + 64),
            2,
            (1, 1),
        ),
    ),
    "softmax": (
        # max 32, exp and subtraction 64, sum 32, division 32
        lambda: legalized(nn.softmax, (4, 8)),
        Features("softmax", (4,), (8,), (F32, F32), 160.0, 256.0, 4, (1,)),
    ),
    "layernorm": (
        # sum 32, mean 4, squares (two subtractions, product, sum) 128, normalise 7 * 32
        lambda: legalized(lambda x, g, b: nn.layer_norm(x, g, b, axes=[-1]), (4, 8), (8,), (8,)),
        Features("norm", (4,), (8,), (F32,) * 4, 388.0, 4.0 * (32 + 8 + 8 + 32), 4, (1, 0, 1, 0)),
    ),
    "rmsnorm": (
        # squares 32, sum 32, root 3 * 4, two products 64
        lambda: legalized(lambda x, g: nn.rms_norm(x, g, axes=[-1]), (4, 8), (8,)),
        Features("norm", (4,), (8,), (F32,) * 3, 140.0, 4.0 * (32 + 8 + 32), 7, (1,)),
    ),
    "max pool": (
        lambda: legalized(lambda x: nn.max_pool2d(x, (2, 2)), (1, 4, 8, 8)),
        Features("pool", (1, 4, 7, 7), (2, 2), (F32, F32), 784.0, 4.0 * (256 + 196), 1, (1,)),
    ),
    "elementwise chain": (
        exp_chain,
        Features("elementwise", (4, 8), (), (F32, F32), 96.0, 256.0, 2, (1,)),
    ),
    "row sum": (
        lambda: legalized(lambda x: relax.op.sum(x, axis=1), (4, 8)),
        Features("reduce", (4,), (8,), (F32, F32), 32.0, 144.0, 1, (1,)),
    ),
    "while loop": (
        searchsorted,
        Features("other", (5,), (), ("int32",) * 3, 5.0, 80.0, 1),
    ),
    "zero rows": (
        lambda: exp_over(0),
        Features("elementwise", (0, 4), (), (F32, F32), 0.0, 0.0, 1, (1,)),
    ),
    "symbolic rows": (
        lambda: exp_over(te.var("n")),
        Features("elementwise", (-1, 4), (), (F32, F32), 4.0, 32.0, 1, (1,)),
    ),
    "scalar reduction": (
        max_to_scalar,
        Features("reduce", (), (6, 7), (F32, F32), 42.0, 172.0, 1, (1,)),
    ),
    "scalar argument": (
        scaled_by_argument,
        Features("elementwise", (8,), (), (F32, "int32", F32), 8.0, 68.0, 1, (1,)),
    ),
    "strides": (
        strided,
        Features(
            *("elementwise", (6, 8), (), (F32,) * 5, 144.0, 4.0 * (48 * 4 + 6), 1, (6, 1, 0, -1))
        ),
    ),
    "no blocks": (no_blocks, Features("other", (), (), (F32,), 1.0, 16.0, 0)),
}


def built(name: str) -> tuple[Any, Features]:
    source, expected = FUNCTIONS[name]
    return (source if isinstance(source, tvm.tirx.PrimFunc) else source()), expected


@pytest.mark.parametrize("name", FUNCTIONS)
def test_features_are_those_worked_out_by_hand(name: str) -> None:
    func, expected = built(name)
    assert features(func) == expected


@pytest.mark.parametrize("name", FUNCTIONS)
def test_reference_agrees_with_cpp(name: str) -> None:
    func, _ = built(name)
    assert features_reference(func) == features(func)


def test_module_answers_with_main_else_first_function_by_name() -> None:
    conv, dense = conv2d(), matmul(4, 5, 8)
    for names, expected in ((("b", "main"), "matmul"), (("a", "b"), "conv2d")):
        mod = tvm.IRModule(dict(zip(names, (conv, dense), strict=True)))
        assert features(mod).op_class == features_reference(mod).op_class == expected


def test_module_without_functions_has_no_features() -> None:
    assert features(tvm.IRModule({})) == features_reference(tvm.IRModule({})) == Features()
