# SPDX-License-Identifier: Apache-2.0
"""Kope's lowering: small buffers on the stack, whatever their scope."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from rule_checks import AVX2, depthwise_func
from tvm import IRModule, te
from tvm.s_tir import Schedule

from kope_tvm.llvm_build import build
from kope_tvm.machine import tvm_target
from kope_tvm.schedules.depthwise_x86 import schedule
from kope_tvm.tir_pipeline import NAME

_WORKSPACE = "TVMBackendAllocWorkspace"
_FLOATS_OF_8_KIB = 2048


def _through(num_floats: int, scope: str, num_buffers: int = 1) -> IRModule:
    """The sum of so many copies of `x`, turned round, each in a buffer of a scope."""
    x = te.placeholder((num_floats,), name="x")
    copies = [te.compute(x.shape, lambda i: x[i] * 1.0, name=f"c{n}") for n in range(num_buffers)]
    out = te.compute(x.shape, lambda i: sum(c[num_floats - 1 - i] for c in copies), name="out")
    sch = Schedule(IRModule({"main": te.create_prim_func([x, out])}))
    for number in range(num_buffers):
        sch.set_scope(sch.get_sblock(f"c{number}"), 0, scope)
    return sch.mod


def _asks(mod: IRModule, pipeline: str = NAME) -> int:
    """How many buffers the code asks of the runtime."""
    code = tvm.compile(mod, tvm_target(AVX2), tir_pipeline=pipeline).mod.inspect_source("ll")
    return sum(_WORKSPACE in line and "load" in line for line in code.splitlines())


@pytest.mark.parametrize("scope", ["global", "local"])
def test_a_buffer_of_8_kib_lies_on_the_stack_and_a_larger_one_does_not(scope: str) -> None:
    assert _asks(_through(_FLOATS_OF_8_KIB, scope)) == 0
    assert _asks(_through(_FLOATS_OF_8_KIB + 1, scope)) == 1


def test_all_of_a_function_are_32_kib_at_most() -> None:
    assert _asks(_through(_FLOATS_OF_8_KIB - 1, "local", num_buffers=4)) == 0
    assert _asks(_through(_FLOATS_OF_8_KIB - 1, "local", num_buffers=5)) == 1


def test_tvm_by_itself_asks_for_a_tile_of_sums() -> None:
    """What this is for; where a later TVM does not, the pass can go."""
    mod = schedule(depthwise_func((2, 8), 5, 1, 2), AVX2)[0].mod
    assert _asks(mod, "default") > 0
    assert _asks(mod) == 0


@pytest.mark.parametrize("num_floats", [7, _FLOATS_OF_8_KIB, _FLOATS_OF_8_KIB + 1])
def test_what_goes_through_them_is_right(num_floats: int) -> None:
    x = np.arange(num_floats, dtype="float32")
    given, out = tvm.runtime.tensor(x), tvm.runtime.tensor(np.zeros_like(x))
    build(_through(num_floats, "local", 3), tvm_target(AVX2)).jit()["main"](given, out)
    np.testing.assert_array_equal(out.numpy(), x[::-1] * 3)
