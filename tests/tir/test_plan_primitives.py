# SPDX-License-Identifier: Apache-2.0
"""Every primitive of the allow-list, applied once where it is legal."""

from __future__ import annotations

from typing import Any

import pytest
import tvm
from rule_checks import LLVM
from tvm import te, topi
from tvm.s_tir import Schedule

from kope_tvm.plan.primitives import primitives
from kope_tvm.plan.schedule import planned
from kope_tvm.plan.steps import read_steps
from kope_tvm.proposal import Plan
from kope_tvm.schedules.widening import WideningDot

CUDA: dict[str, object] = {"kind": "cuda", "arch": "sm_80"}


def _matmul(dtype: str = "float32", out: str = "float32") -> tvm.IRModule:
    a, b = te.placeholder((32, 48), dtype, name="A"), te.placeholder((48, 64), dtype, name="B")
    k = te.reduce_axis((0, 48), name="k")
    c = te.compute(
        (32, 64),
        lambda i, j: te.sum(a[i, k].astype(out) * b[k, j].astype(out), axis=k),
        name="C",
    )
    relu = te.compute((32, 64), lambda i, j: te.max(c[i, j], tvm.tirx.const(0, out)), name="D")
    return tvm.IRModule({"main": te.create_prim_func([a, b, relu])})


def _packed_int8() -> tvm.IRModule:
    """A dot product of a row with a column operand packed in groups of four."""
    row, col = (
        te.placeholder((16,), "int8", name="row"),
        te.placeholder((4, 16, 4), "int8", name="col"),
    )
    k = te.reduce_axis((0, 16), name="k")
    out = te.compute(
        (16,),
        lambda i: te.sum(row[k].astype("int32") * col[k // 4, i, k % 4].astype("int32"), axis=k),
        name="dot",
    )
    return tvm.IRModule({"main": te.create_prim_func([row, col, out])})


def _padded() -> tvm.IRModule:
    x = te.placeholder((30, 30), name="x")
    pad = topi.nn.pad(x, (1, 1), (1, 1), name="pad")
    twice = te.compute((32, 32), lambda i, j: pad[i, j] * 2.0, name="twice")
    return tvm.IRModule({"main": te.create_prim_func([x, twice])})


def _chain() -> tvm.IRModule:
    x = te.placeholder((8, 8), name="x")
    first = te.compute((8, 8), lambda i, j: x[i, j] * 2.0, name="first")
    last = te.compute((8, 8), lambda i, j: first[i, j] + 1.0, name="last")
    return tvm.IRModule({"main": te.create_prim_func([x, last])})


def _apply(mod: tvm.IRModule, steps: list[dict[str, Any]], target: dict[str, object] = LLVM) -> str:
    """The script of the function once every step went through."""
    sch = Schedule(mod, debug_mask="none", error_render_level="detail")
    read = read_steps(steps)
    assert isinstance(read, tuple), read
    with tvm.target.Target(target):
        assert planned(Plan(read), sch) is None
    return str(sch.mod["main"].script())


_SPLIT_K = {"do": "split", "block": "C", "loop": "k", "factors": [12, 4]}
_COPY = {"do": "cache_read", "block": "C", "buffer": "B", "into": "copy"}

_ONCE: dict[str, tuple[Any, list[dict[str, Any]], str]] = {
    "split": (_matmul, [_SPLIT_K], "T.axis.reduce(48, k_0 * 4 + k_1)"),
    "fuse": (
        _matmul,
        [{"do": "fuse", "block": "C", "loops": ["i", "j"]}],
        "for i_j_fused, k in T.grid(2048, 48)",
    ),
    "reorder": (
        _matmul,
        [{"do": "reorder", "block": "C", "loops": ["k", "i"]}],
        "for k, j, i in T.grid(48, 64, 32)",
    ),
    "add_unit_loop": (
        _matmul,
        [{"do": "add_unit_loop", "block": "C", "loop": "k", "into": "u"}],
        "for i, j, u, k in T.grid(32, 64, 1, 48)",
    ),
    "vectorize": (_matmul, [{"do": "vectorize", "block": "D", "loop": "j"}], "T.vectorized(64)"),
    "unroll": (_matmul, [{"do": "unroll", "block": "C", "loop": "i"}], "T.unroll(32)"),
    "parallel": (_matmul, [{"do": "parallel", "block": "C", "loop": "i"}], "T.parallel(32)"),
    "bind": (
        _matmul,
        [{"do": "bind", "block": "C", "loop": "i", "thread": "blockIdx.x"}],
        'T.thread_binding(32, thread="blockIdx.x")',
    ),
    "annotate": (
        _matmul,
        [
            {
                "do": "annotate",
                "block": "C",
                "loop": "i",
                "key": "pragma_unroll_explicit",
                "value": 1,
            },
            {"do": "annotate", "block": "C", "key": "double_buffer_scope", "value": 0},
        ],
        '"pragma_unroll_explicit": 1',
    ),
    "cache_read": (_matmul, [_COPY], 'with T.sblock("B_global")'),
    "cache_write": (
        _matmul,
        [{"do": "cache_write", "block": "C", "buffer": 0, "scope": "local"}],
        'scope="local"',
    ),
    "reindex": (
        _matmul,
        [{"do": "reindex", "block": "C", "buffer": "A", "into": "rows"}],
        'with T.sblock("A_reindex_reindex")',
    ),
    "set_scope": (
        _matmul,
        [_COPY, {"do": "set_scope", "block": "copy", "buffer": "B_global", "scope": "local"}],
        'scope="local"',
    ),
    "storage_align": (
        _matmul,
        [
            _COPY,
            {
                "do": "storage_align",
                "block": "copy",
                "buffer": 0,
                "axis": 0,
                "factor": 32,
                "offset": 8,
            },
        ],
        '"buffer_dim_align": [[0, 0, 32, 8]]',
    ),
    "compute_at": (
        _matmul,
        [_COPY, {"do": "compute_at", "block": "copy", "at": "j", "of": "C"}],
        "for ax0 in range(48)",
    ),
    "reverse_compute_at": (
        _matmul,
        [{"do": "reverse_compute_at", "block": "D", "at": "i", "of": "C"}],
        "for ax0 in range(64)",
    ),
    "compute_inline": (
        _padded,
        [{"do": "compute_inline", "block": "pad"}],
        "T.if_then_else",
    ),
    "reverse_compute_inline": (
        _chain,
        [{"do": "reverse_compute_inline", "block": "last"}],
        "* T.float32(2.0) + T.float32(1.0)",
    ),
    "decompose_reduction": (
        _matmul,
        [{"do": "decompose_reduction", "block": "C", "loop": "k", "into": "zero"}],
        'with T.sblock("C_init")',
    ),
    "rfactor": (
        _matmul,
        [_SPLIT_K, {"do": "rfactor", "block": "C", "loop": "k_1", "axis": 2, "into": "parts"}],
        'with T.sblock("C_rf")',
    ),
    "decompose_padding": (
        _padded,
        [{"do": "decompose_padding", "block": "pad", "loop": "i0", "into": "edges"}],
        'with T.sblock("pad_pad_const")',
    ),
    "transform_layout": (
        _matmul,
        [
            _COPY,
            {
                "do": "transform_layout",
                "block": "C",
                "buffer": "B_global",
                "map": "lambda k, j: (j // 24, k, j % 24)",
                "pad": 0,
            },
        ],
        "T.sblock_alloc_buffer((3, 48, 24))",
    ),
    "pad_einsum": (
        _matmul,
        [{"do": "pad_einsum", "block": "C", "padding": [1, 1, 32]}],
        'with T.sblock("A_pad")',
    ),
    "blockize": (
        _matmul,
        [{"do": "blockize", "block": "C", "loop": "j", "into": "row"}],
        'with T.sblock("C_o")',
    ),
}


@pytest.mark.parametrize("name", list(_ONCE))
def test_primitive(name: str) -> None:
    make, steps, expected = _ONCE[name]
    script = _apply(make(), steps, CUDA if name == "bind" else LLVM)
    assert expected in script


def test_tensorize_with_an_intrinsic_of_the_target() -> None:
    intrin = WideningDot(16, 16, 4, "avx512vnni", "").name
    vnni: dict[str, object] = {"kind": "llvm", "mcpu": "icelake-server", "num-cores": 2}
    steps = [
        {"do": "cache_write", "block": "dot", "buffer": "dot", "scope": "local"},
        {"do": "decompose_reduction", "block": "dot", "loop": "i"},
        {"do": "tensorize", "block": "dot", "loop": "i", "intrin": intrin},
    ]
    assert "T.call_llvm_pure_intrin" in _apply(_packed_int8(), steps, vnni)


def test_every_primitive_has_a_case() -> None:
    assert set(primitives()) == {*_ONCE, "tensorize"}
