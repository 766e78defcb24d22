# SPDX-License-Identifier: Apache-2.0
"""Kope's lowering: small buffers on the stack, whatever their scope."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import tvm
from rule_checks import AVX2, depthwise_func
from tvm import IRModule, te
from tvm.s_tir import Schedule
from tvm.target import Target

from kope_tvm.llvm_build import build, build_untuned
from kope_tvm.machine import tvm_target
from kope_tvm.schedules.depthwise_x86 import schedule
from kope_tvm.tir_pipeline import NAME, StackBuffers

_WORKSPACE = "TVMBackendAllocWorkspace"
_FLOATS_OF_8_KIB = 2048
_CALLS = """\
@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(other: T.Buffer((2048,), "float32"), out: T.Buffer((2048,), "float32")):
        tile = T.sblock_alloc_buffer((2048,))
        for i in range(2048):
            with T.sblock("tile"):
                v = T.axis.spatial(2048, i)
                tile[v] = T.float32(2.0)
        with T.sblock("call"):
            T.reads(tile[0:2048])
            T.writes(out[0:2048])
            T.evaluate(T.call_extern("int32", "memcpy", out.data, {argument}, 8192))
        for i in range(2048):
            with T.sblock("out"):
                v = T.axis.spatial(2048, i)
                out[v] = out[v] + tile[v]
"""
_HOST = """\
@T.prim_func(s_tir=True)
def main(out: T.Buffer((4,), "float32")):
    T.attr("default", "device_type", {device_type})
    tile = T.alloc_buffer((4,))
    for i in range(4):
        tile[i] = T.float32(2.0)
    for i in range(4):
        out[i] = tile[i]
"""
_HALVES = """\
@T.prim_func(s_tir=True)
def main(out: T.Buffer((4,), "int4")):
    tile = T.alloc_buffer(({num},), "int4")
    for i in range(4):
        tile[i] = T.Cast("int4", i)
    for i in range(4):
        out[i] = tile[i]
"""


def _through(num_floats: int, scope: str, num_buffers: int = 1) -> IRModule:
    """The sum of so many copies of `x`, turned round, each in a buffer of a scope."""
    x = te.placeholder((num_floats,), name="x")
    copies = [te.compute(x.shape, lambda i: x[i] * 1.0, name=f"c{n}") for n in range(num_buffers)]
    out = te.compute(x.shape, lambda i: sum(c[num_floats - 1 - i] for c in copies), name="out")
    sch = Schedule(IRModule({"main": te.create_prim_func([x, out])}))
    for number in range(num_buffers):
        sch.set_scope(sch.get_sblock(f"c{number}"), 0, scope)
    return sch.mod


def _turned(of: Any, place: Any) -> Any:
    return of[_FLOATS_OF_8_KIB - 1 - place]


def _asks(mod: IRModule, pipeline: str = NAME) -> int:
    """How many buffers the code asks of the runtime."""
    return _num_asks(
        tvm.compile(mod, tvm_target(AVX2), tir_pipeline=pipeline).mod.inspect_source("ll")
    )


def _num_asks(code: str) -> int:
    return sum(_WORKSPACE in line and "load" in line for line in code.splitlines())


@pytest.mark.parametrize("scope", ["global", "local"])
def test_a_buffer_of_8_kib_lies_on_the_stack_and_a_larger_one_does_not(scope: str) -> None:
    assert _asks(_through(_FLOATS_OF_8_KIB, scope)) == 0
    assert _asks(_through(_FLOATS_OF_8_KIB + 1, scope)) == 1


def test_all_of_a_function_are_32_kib_at_most() -> None:
    assert _asks(_through(_FLOATS_OF_8_KIB - 1, "local", num_buffers=4)) == 0
    assert _asks(_through(_FLOATS_OF_8_KIB - 1, "local", num_buffers=5)) == 1


def test_what_all_is_proved_against_is_of_tvms_own_lowering() -> None:
    code = build_untuned(_through(7, "local"), tvm_target(AVX2)).mod.inspect_source("ll")
    assert _num_asks(code) == 1


def test_tvm_by_itself_asks_for_a_tile_of_sums() -> None:
    """What this is for; where a later TVM does not, the pass can go."""
    mod = schedule(depthwise_func((2, 8), 5, 1, 2), AVX2)[0].mod
    assert _asks(mod, "default") > 0
    assert _asks(mod) == 0


@pytest.mark.parametrize("argument", ["tile", "tile.data", "T.address_of(tile[0])"])
def test_a_buffer_that_a_call_is_given_is_the_runtimes(argument: str) -> None:
    """What is called may count on 64 bytes' alignment; LLVM gives the stack's 16."""
    mod = tvm.script.from_source(_CALLS.format(argument=argument))
    assert _asks(mod) == 1
    assert _asks(tvm.script.from_source(_CALLS.format(argument="other.data"))) == 0


def test_memory_that_two_buffers_share_is_on_the_stack() -> None:
    """A chain of four copies needs the memory of two, which have a second name each."""
    x = te.placeholder((_FLOATS_OF_8_KIB,), name="x")
    made = x
    for name in ("a", "b", "c", "d", "out"):
        made = te.compute(x.shape, partial(_turned, made), name=name)
    mod = IRModule({"main": te.create_prim_func([x, made])})
    assert _asks(mod, "default") == 2
    assert _asks(mod) == 0


def test_codes_own_memory_is_a_matter_of_llvm() -> None:
    """C knows no `local`; TVM's source of it asks the runtime."""
    x = np.arange(7, dtype="float32")
    made = tvm.compile(_through(7, "local"), Target({"kind": "c"}), tir_pipeline=NAME)
    assert "TVMBackendAllocWorkspace" in made.mod.inspect_source()
    given, out = tvm.runtime.tensor(x), tvm.runtime.tensor(np.zeros_like(x))
    made.jit()["main"](given, out)
    np.testing.assert_array_equal(out.numpy(), x[::-1])


def _is_marked(script: str) -> bool:
    func = tvm.script.from_source(script).with_attr("target", Target({"kind": "llvm"}))
    made = tvm.transform.Sequential([StackBuffers()])(IRModule({"main": func}))
    return "disable_lower_builtin" in made.script()


@pytest.mark.parametrize(("device_type", "is_marked"), [(1, True), (2, False)])
def test_a_device_has_its_own_memory(device_type: int, is_marked: bool) -> None:
    assert _is_marked(_HOST.format(device_type=device_type)) == is_marked


@pytest.mark.parametrize(("num", "is_marked"), [(8 << 10, True), ((8 << 10) + 1, False)])
def test_half_a_byte_takes_a_whole_one(num: int, is_marked: bool) -> None:
    assert _is_marked(_HALVES.format(num=num)) == is_marked


@pytest.mark.parametrize("num_floats", [7, _FLOATS_OF_8_KIB, _FLOATS_OF_8_KIB + 1])
def test_what_goes_through_them_is_right(num_floats: int) -> None:
    x = np.arange(num_floats, dtype="float32")
    given, out = tvm.runtime.tensor(x), tvm.runtime.tensor(np.zeros_like(x))
    build(_through(num_floats, "local", 3), tvm_target(AVX2)).jit()["main"](given, out)
    np.testing.assert_array_equal(out.numpy(), x[::-1] * 3)
