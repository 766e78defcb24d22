# SPDX-License-Identifier: Apache-2.0
"""Vector exp, erf and log: as exact as libm where it matters, and no calls of libm."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import tvm
from rule_checks import LLVM, Array
from tvm import te, topi
from tvm.ir import IRModule
from tvm.script import tirx as T

from kope_tvm.schedules import vecmath

EDGES = [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, 88.7, 88.8, -88.0, -103.0, -104.5, 1e-42]
EXPECTED: dict[str, Callable[[Array], Array]] = {
    "exp": np.exp,
    "log": np.log,
    "erf": np.vectorize(math.erf),
}


@pytest.fixture(autouse=True)
def installed() -> Iterator[None]:
    vecmath.install()
    yield
    vecmath.install()


def vector_func(name: str, size: int, dtype: str = "float32") -> IRModule:
    x = te.placeholder((size,), dtype, name="x")
    func = te.create_prim_func([x, getattr(topi, name)(x)])
    sch = tvm.s_tir.Schedule(IRModule({"main": func}))
    (block,) = sch.get_child_blocks(sch.get_sblock("root"))
    _, lane = sch.split(sch.get_loops(block)[0], [None, 8])
    sch.vectorize(lane)
    return sch.mod


def compute(name: str, x: Array) -> Array:
    executable = tvm.compile(vector_func(name, x.size, str(x.dtype)), tvm.target.Target(LLVM)).jit()
    out = tvm.runtime.tensor(np.zeros_like(x))
    executable["main"](tvm.runtime.tensor(x), out)
    return np.asarray(out.numpy())


def assembly(name: str) -> str:
    target = tvm.target.Target(LLVM)
    return str(tvm.compile(vector_func(name, 64), target).mod.inspect_source("asm"))


@pytest.mark.parametrize("name", ["exp", "log", "erf"])
def test_vectors_are_within_two_units_of_the_last_place(name: str) -> None:
    rng = np.random.default_rng(5)
    draws = [rng.uniform(-6, 6, 40000), rng.uniform(-110, 95, 40000), rng.normal(0, 1e-3, 20000)]
    x = np.concatenate([*draws, np.resize(EDGES, 96)]).astype(np.float32)
    with np.errstate(all="ignore"):
        exact = EXPECTED[name](x.astype(np.float64))
        rounded = exact.astype(np.float32)
    found = compute(name, x)
    finite = np.isfinite(rounded)
    np.testing.assert_array_equal(found[~finite], rounded[~finite])
    units = np.abs(found[finite] - exact[finite]) / np.spacing(np.abs(rounded[finite]))
    assert units.max() < 2


@pytest.mark.parametrize("name", ["exp", "log", "erf"])
def test_doubles_are_computed_as_before(name: str) -> None:
    x = np.linspace(0.5, 3, 64)
    np.testing.assert_allclose(compute(name, x), EXPECTED[name](x), rtol=1e-15)


@pytest.mark.parametrize("name", ["exp", "log", "erf"])
def test_uninstall_puts_the_calls_of_libm_back(name: str) -> None:
    assert f"{name}f" not in assembly(name)
    vecmath.uninstall()
    assert f"{name}f" in assembly(name)


def test_installing_twice_is_installing_once() -> None:
    vecmath.install()
    vecmath.uninstall()
    assert "expf" in assembly("exp")


def limited(x: Array) -> Array:
    """exp of what is said not to be positive, eight lanes at a time."""
    size = int(x.size)

    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((size,), "float32"), B: T.Buffer((size,), "float32")) -> None:
        T.func_attr({"global_symbol": "main"})
        for i in range(size // 8):
            for j in T.vectorized(8):
                B[i * 8 + j] = T.exp(
                    T.Select(A[i * 8 + j] > T.float32(0), T.float32(0), A[i * 8 + j])
                )

    target = tvm.target.Target(LLVM)
    built = tvm.compile(IRModule({"main": main}), target)
    assert "expf" not in str(built.mod.inspect_source("asm"))
    out = tvm.runtime.tensor(np.zeros_like(x))
    built.jit()["main"](tvm.runtime.tensor(x), out)
    return np.asarray(out.numpy())


def test_an_exponent_that_is_not_positive_is_limited_to_zero() -> None:
    rng = np.random.default_rng(5)
    draws = [rng.uniform(-87, 0, 40000), rng.normal(0, 1e-3, 20000)]
    x = np.concatenate([*draws, np.array([0.0, -0.0, 3.0, math.inf] * 2)]).astype(np.float32)
    exact = np.exp(np.minimum(x, 0).astype(np.float64))
    units = np.abs(limited(x) - exact) / np.spacing(exact.astype(np.float32))
    assert units.max() < 2
    tiny = np.array([-87.5, -88.0, -95.0, -104.0, -1e4, -math.inf, -3e38, -89.0], np.float32)
    assert np.all(np.abs(limited(tiny) - np.exp(tiny.astype(np.float64))) < 2.0**-126)
    assert limited(np.full(8, -math.inf, np.float32)).max() == 0
    assert np.isnan(limited(np.full(8, math.nan, np.float32))).all()
