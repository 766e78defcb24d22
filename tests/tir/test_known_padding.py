# SPDX-License-Identifier: Apache-2.0
"""Rows of padding are not multiplied by where unrolled loops say which they are."""

from __future__ import annotations

import re

import numpy as np
import pytest
import tvm
from rule_checks import AVX2, depthwise_func
from tvm import IRModule, te, tirx
from tvm.s_tir import Schedule
from tvm.target import Target

from kope_tvm.known_padding import with_known_padding
from kope_tvm.llvm_build import build
from kope_tvm.schedules.depthwise_x86 import schedule

_PADDED = """\
@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(x: T.Buffer((4,), "float32"), out: T.Buffer((2,), "float32")):
        pad = T.sblock_alloc_buffer((6,))
        for i in range(6):
            with T.sblock("pad"):
                v = T.axis.spatial(6, i)
                pad[v] = T.if_then_else(1 <= v and v < 5, x[v - 1], T.float32(0.0))
        {between}
        for i in T.unroll(2):
            with T.sblock("out"):
                v = T.axis.spatial(2, i)
                out[v] = pad[v] * T.float32(2.0)
"""
_WRITES = {
    "another block": """
        for i in range(1):
            with T.sblock("corner"):
                v = T.axis.spatial(1, i)
                pad[v] = T.float32(5.0)
        """,
    "a second store of a block": """
        with T.sblock("corner"):
            T.reads()
            T.writes(out[0])
            out[0] = T.float32(1.0)
            pad[0] = T.float32(5.0)
        """,
    "a call": """
        with T.sblock("corner"):
            T.reads()
            T.writes(out[0])
            T.evaluate(T.call_extern("int32", "memset", pad.data, 0, 4))
        """,
    "a call on an element": """
        with T.sblock("corner"):
            T.reads()
            T.writes(out[0])
            T.evaluate(T.call_extern("int32", "memset", T.address_of(pad[0]), 0, 4))
        """,
    "a call of the buffer": """
        with T.sblock("corner"):
            T.reads()
            T.writes(out[0])
            T.evaluate(T.call_extern("int32", "memset", pad, 0, 4))
        """,
    "a second name": """
        with T.sblock("corner"):
            T.reads()
            T.writes(out[0])
            name = T.decl_buffer((6,), data=pad.data)
            name[0] = T.float32(5.0)
        """,
    "a view": """
        with T.sblock("corner"):
            T.reads()
            T.writes(pad[0:1])
            view = T.match_buffer(pad[0:1], (1,))
            view[0] = T.float32(5.0)
        """,
}
_A_PARAMETER = """\
@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(pad: T.Buffer((6,), "float32"), out: T.Buffer((2,), "float32")):
        for i in range(2):
            with T.sblock("pad"):
                v = T.axis.spatial(2, i)
                pad[v] = T.if_then_else(1 <= v, T.float32(3.0), T.float32(0.0))
        for i in T.unroll(2):
            with T.sblock("out"):
                v = T.axis.spatial(2, i)
                out[v] = pad[v] * T.float32(2.0)
"""
_CONDITION = "1 <= v and v < 5"
_NOT_SURE = {
    "the number of a thing that changes": "x[v] < T.float32(1.0)",
    "what a call says": 'T.call_extern("int32", "is_inside", v) == 1',
}


def _num_products(mod: IRModule) -> int:
    """Vector multiply-adds in the code that LLVM makes."""
    code = tvm.compile(mod, target=Target(dict(AVX2.tvm_target))).mod.inspect_source("ll")
    return len(re.findall(r"call .*@llvm\.fmuladd", code))


def _window_sums(*, is_unrolled: bool) -> IRModule:
    """Sums over three neighbours of four numbers with a border of ones."""
    x = te.placeholder((4,), name="x")
    pad = te.compute(
        (6,), lambda i: tirx.if_then_else(te.all(i >= 1, i < 5), x[i - 1], 1.0), name="pad"
    )
    k = te.reduce_axis((0, 3), name="k")
    out = te.compute((4,), lambda i: te.sum(pad[i + k], axis=k), name="out")
    sch = Schedule(IRModule({"main": te.create_prim_func([x, out])}))
    for loop in sch.get_loops(sch.get_sblock("out")) if is_unrolled else ():
        sch.unroll(loop)
    return sch.mod


def _ran(mod: IRModule) -> list[float]:
    x, out = tvm.runtime.tensor(np.arange(4, dtype="float32") * 10), np.zeros(4, "float32")
    found = tvm.runtime.tensor(out)
    build(mod, Target({"kind": "llvm"})).jit()["main"](x, found)
    return [float(each) for each in found.numpy()]


def test_five_rows_of_taps_on_two_rows_of_an_image_are_four_of_ten_products() -> None:
    mod = schedule(depthwise_func((2, 8), 5, 1, 2), AVX2)[0].mod
    assert _num_products(mod) == 2 * 5 * 5
    assert _num_products(with_known_padding(mod)) == (2 + 2) * 5


def test_rows_of_a_stride_are_known_too() -> None:
    """Rows 0 and 2 of three have rows -2 to 2 and 0 to 4 under their taps."""
    mod = schedule(depthwise_func((3, 16), 5, 2, 2), AVX2)[0].mod
    assert _num_products(mod) == 2 * 5 * 5
    assert _num_products(with_known_padding(mod)) == (3 + 3) * 5


def test_the_border_is_whatever_the_padding_says() -> None:
    mod = _window_sums(is_unrolled=True)
    assert "T.if_then_else(1 <= v_i + v_k and v_i + v_k < 5, pad[v_i + v_k], T.float32(1.0))" in (
        with_known_padding(mod).script()
    )
    assert _ran(mod) == [0 + 10 + 1, 0 + 10 + 20, 10 + 20 + 30, 20 + 30 + 1]


def test_loops_that_run_know_no_padding() -> None:
    mod = _window_sums(is_unrolled=False)
    assert with_known_padding(mod).script() == mod.script()


def test_the_script_of_these_tests_is_padding_that_unrolled_loops_know() -> None:
    mod = tvm.script.from_source(_PADDED.format(between=""))
    assert "T.if_then_else(1 <= v and v < 5, pad[v], T.float32(0.0))" in (
        with_known_padding(mod).script()
    )


@pytest.mark.parametrize("writes", _WRITES.values(), ids=_WRITES)
def test_a_border_that_something_else_may_write_is_none(writes: str) -> None:
    mod = tvm.script.from_source(_PADDED.format(between=writes.strip()))
    assert with_known_padding(mod).script() == mod.script()


@pytest.mark.parametrize("condition", _NOT_SURE.values(), ids=_NOT_SURE)
def test_a_condition_on_more_than_places_is_not_asked_twice(condition: str) -> None:
    mod = tvm.script.from_source(_PADDED.format(between="").replace(_CONDITION, condition))
    assert with_known_padding(mod).script() == mod.script()


def test_a_place_that_a_call_says_is_asked_for_once() -> None:
    script = _PADDED.format(between="").replace(
        "pad[v] * ", 'pad[T.call_extern("int32", "rand") % 6] * '
    )
    mod = tvm.script.from_source(script)
    assert with_known_padding(mod).script() == mod.script()


def test_what_the_caller_has_of_a_buffer_is_not_known() -> None:
    """Elements that the block does not write are whatever the caller left there."""
    mod = tvm.script.from_source(_A_PARAMETER)
    assert with_known_padding(mod).script() == mod.script()


def test_places_of_another_width_say_nothing() -> None:
    """Pads with int64 loops, read by int32 ones: a guard of both would not be well-formed."""
    x = te.placeholder((4,), name="x")
    pad = te.compute(
        (tirx.IntImm("int64", 6),),
        lambda i: tirx.if_then_else(te.all(i >= 1, i < 5), x[i - 1], 0.0),
        name="pad",
    )
    out = te.compute((4,), lambda i: pad[i] * 2.0, name="out")
    sch = Schedule(IRModule({"main": te.create_prim_func([x, out])}))
    sch.unroll(*sch.get_loops(sch.get_sblock("out")))
    assert _ran(sch.mod) == [0, 0, 20, 40]
