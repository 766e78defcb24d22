# SPDX-License-Identifier: Apache-2.0
"""Checks that every schedule rule has to pass, and the functions to check it with."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tvm
from tvm import relax, te, tirx
from tvm.ir import IRModule
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import Trace

from kope_tvm.llvm_build import build
from kope_tvm.target import Facts, TargetSpec

Array = npt.NDArray[Any]
Rule = Callable[[tirx.PrimFunc, TargetSpec], list[Schedule]]

LLVM: dict[str, object] = {"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 2}
AVX2 = TargetSpec("avx2", LLVM, Facts("avx2", 256, 16, 2, 32 << 10, 512 << 10, 8 << 20))
AVX512 = TargetSpec("avx512", LLVM, Facts("avx512", 512, 32, 2, 48 << 10, 1 << 20, 32 << 20))
RVV = TargetSpec("rvv", LLVM, Facts("rvv", 256, 32, 2, 32 << 10, 512 << 10))


def tensor(name: str, *shape: int, dtype: str = "float32") -> relax.Var:
    """A Relax parameter."""
    return relax.Var(name, relax.TensorType(shape, dtype))


def fused(params: Sequence[relax.Var], result: relax.Expr) -> tirx.PrimFunc:
    """The only function that Relax's `zero` pipeline makes of an expression."""
    builder = relax.BlockBuilder()
    with builder.function("main", list(params)):
        with builder.dataflow():
            out = builder.emit_output(builder.normalize(result))
        builder.emit_func_output(out)
    mod = relax.get_pipeline("zero")(builder.get())
    (func,) = (f for _, f in mod.functions_items() if isinstance(f, tirx.PrimFunc))
    return func.with_attr("global_symbol", "main")


def hardswish(value: relax.Expr) -> relax.Expr:
    """`x * clip(x + 3, 0, 6) / 6` as ONNX import writes it."""
    three, six = relax.const(3.0, "float32"), relax.const(6.0, "float32")
    clipped = relax.op.clip(relax.op.add(value, three), 0, 6)
    return relax.op.multiply(value, relax.op.divide(clipped, six))


def inputs(func: tirx.PrimFunc) -> list[Array]:
    """Small random values for the parameters; the last, the output, is poisoned."""
    rng = np.random.default_rng(7)
    arrays: list[Array] = []
    for param in func.params:
        shape = [int(size) for size in param.shape]
        if "int" in str(param.dtype):
            arrays.append(rng.integers(-9, 9, shape).astype(str(param.dtype)))
        else:
            arrays.append(rng.standard_normal(shape).astype(str(param.dtype)))
    arrays[-1] = np.full_like(arrays[-1], 77)
    return arrays


def run(mod: IRModule, arrays: Sequence[Array]) -> Array:
    """The output of the module's `main`."""
    executable = build(mod, tvm.target.Target(LLVM)).jit()
    tensors = [tvm.runtime.tensor(array) for array in arrays]
    executable["main"](*tensors)
    return np.asarray(tensors[-1].numpy())


def with_random_decisions(func: tirx.PrimFunc, sch: Schedule, seed: int) -> Schedule:
    """The same trace on the untuned function, every decision drawn anew."""
    rng = random.Random(seed)
    trace = sch.trace
    for inst in list(trace.insts):
        if inst.kind.name == "SampleCategorical":
            decision = rng.randrange(len(inst.attrs[0]))
            trace = trace.with_decision(inst, decision, remove_postproc=False)
    fresh = Schedule(IRModule({"main": func}))
    trace.apply_to_schedule(fresh, remove_postproc=False)
    return fresh


def assert_replays(func: tirx.PrimFunc, sch: Schedule) -> None:
    """The trace gives the same module on the untuned function, also after a round trip as JSON."""
    fresh = Schedule(IRModule({"main": func}))
    sch.trace.apply_to_schedule(fresh, remove_postproc=False)
    tvm.ir.assert_structural_equal(fresh.mod, sch.mod)
    # Trace.as_json leaves TVM's IntImm and FloatImm in its lists
    text = json.dumps(sch.trace.as_json(), default=lambda number: number.value)
    again = Schedule(IRModule({"main": func}))
    Trace.apply_json_to_schedule(json.loads(text), again)
    tvm.ir.assert_structural_equal(again.mod, sch.mod)


def assert_right(
    rule: Rule,
    func: tirx.PrimFunc,
    expected: Callable[..., Array],
    *,
    target: TargetSpec = AVX512,
    num_random: int = 1,
) -> list[Schedule]:
    """Every space of the rule replays and computes `expected`, at its guess and at random."""
    arrays = inputs(func)
    wanted = expected(*(array.astype(np.float64) for array in arrays[:-1]))
    spaces = rule(func, target)
    assert spaces
    for space in spaces:
        assert_replays(func, space)
        drawn = [with_random_decisions(func, space, seed) for seed in range(num_random)]
        for sch in (space, *drawn):
            np.testing.assert_allclose(run(sch.mod, arrays), wanted, rtol=1e-3, atol=1e-3)
    return spaces


def depthwise_func(size: tuple[int, int], kernel: int, stride: int, pad: int) -> tirx.PrimFunc:
    """A convolution of each of six channels of two images."""
    x, w = tensor("x", 2, 6, *size), tensor("w", 6, 1, kernel, kernel)
    return fused([x, w], relax.op.nn.conv2d(x, w, strides=stride, padding=pad, groups=6))


def elementwise_func() -> tirx.PrimFunc:
    """No rule for a reduction takes it."""
    x = te.placeholder((8, 16), name="x")
    return te.create_prim_func([x, te.compute((8, 16), lambda i, j: x[i, j] + 1.0, name="y")])


def row_max_func() -> tirx.PrimFunc:
    """A reduction that multiplies nothing."""
    x = te.placeholder((8, 16), name="x")
    k = te.reduce_axis((0, 16), name="k")
    return te.create_prim_func([x, te.compute((8,), lambda i: te.max(x[i, k], axis=k), name="y")])
