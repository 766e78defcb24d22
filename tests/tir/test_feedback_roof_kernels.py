# SPDX-License-Identifier: Apache-2.0
"""Kernels that measure a roof: they compute what they say, and LLVM leaves nothing out."""

from __future__ import annotations

import numpy as np
import pytest
import tvm

from kope_tvm.feedback import roof_kernels as kernels
from kope_tvm.feedback.machine_code import summary
from kope_tvm.machine import load_target, tvm_target


def _run(mod: tvm.IRModule, *arrays: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> None:
    tensors = [tvm.runtime.tensor(array) for array in arrays]
    tvm.compile(mod, target=tvm_target(load_target("host"))).jit()["main"](*tensors)
    for array, tensor in zip(arrays, tensors, strict=True):
        array[...] = tensor.numpy()


def test_sums_stay_at_their_fixed_point() -> None:
    x = np.full((kernels.CHAINS, 8), 3.0, "float32")
    out = np.zeros((2, kernels.CHAINS, 8), "float32")
    _run(kernels.multiply_adds(2, 100, 8, "float32"), x, out)
    assert (out == 3.0).all()


def test_reads_sum_every_word_as_often_as_said() -> None:
    x = np.arange(2 * 3 * kernels.CHAINS * 4, dtype="int64").reshape(2, 3, kernels.CHAINS, 4)
    out = np.zeros((2, kernels.CHAINS, 4), "int64")
    _run(kernels.reads(2, 5, 4, 3), x, out)
    assert (out == 5 * x.sum(axis=1)).all()


def test_triads_add() -> None:
    x = np.arange(2 * 3 * 4, dtype="int64").reshape(2, 3, 4)
    out = np.zeros_like(x)
    _run(kernels.triads(2, 5, 4, 3), x, 10 * x, out)
    assert (out == 11 * x).all()


def test_launches_reach_every_core() -> None:
    out = np.zeros(3, "int32")
    _run(kernels.launches(3, 2), out)
    assert (out == 1).all()


@pytest.mark.parametrize(
    ("target", "lanes", "registers"),
    [("x86-avx512", 16, "zmm"), ("x86-avx2", 8, "ymm"), ("spacemit-k1", 8, "v m1 e32")],
)
def test_multiply_adds_keep_to_the_registers(target: str, lanes: int, registers: str) -> None:
    mod = kernels.multiply_adds(2, 1000, lanes, "float32")
    loop = summary(mod, tvm_target(load_target(target)))
    assert loop is not None
    assert loop.fma > 0
    assert loop.fma % kernels.CHAINS == 0  # LLVM unrolls.
    assert (loop.loads, loop.stores, loop.spills) == (0, 0, 0)
    assert loop.registers == registers
