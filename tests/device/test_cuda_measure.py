# SPDX-License-Identifier: Apache-2.0
"""Measuring on a GPU: right values, a cold cache, and failures that stay where they are."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
import tvm
from tvm import te
from tvm.script import tirx as T

from kope_tvm.machine import load_target
from kope_tvm.measure.config import MeasureConfig
from kope_tvm.measure.pool import Pool
from kope_tvm.outcome import Measurement
from kope_tvm.tuning import tune

pytestmark = [
    pytest.mark.device,
    pytest.mark.skipif(not tvm.cuda(0).exist, reason="no CUDA device on this machine"),
]

LENGTH = 1 << 20


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with Pool(load_target("cuda-h200"), MeasureConfig(), logging.getLogger("test")) as pool:
        yield pool


def double() -> tvm.IRModule:
    x = te.placeholder((LENGTH,), "float32", "x")
    y = te.compute((LENGTH,), lambda i: x[i] * 2.0, "y")
    return tvm.IRModule({"main": te.create_prim_func([x, y])})


def bound(offset: int = 0, factor: float = 2.0) -> tvm.IRModule:
    """The same on threads; its stores `offset` elements further on."""

    @T.prim_func(s_tir=True)
    def main(x: T.Buffer((LENGTH,), "float32"), y: T.Buffer((LENGTH,), "float32")) -> None:
        T.func_attr({"global_symbol": "main", "tirx.noalias": True})
        for block in T.thread_binding(LENGTH // 256, thread="blockIdx.x"):
            for thread in T.thread_binding(256, thread="threadIdx.x"):
                with T.sblock("y"):
                    i = T.axis.spatial(LENGTH, block * 256 + thread)
                    T.reads(x[i])
                    T.writes(y[i])
                    y[i + offset] = x[i] * T.float32(factor)

    return tvm.IRModule({"main": main})


def outcomes(pool: Pool, *mods: tvm.IRModule) -> list[Measurement]:
    return [found for _, found in sorted(pool.measure(mods, reference=double()))]


def test_an_untuned_function_is_timed_with_the_default_schedule(pool: Pool) -> None:
    measured = pool.baseline(double())
    assert measured.ok, measured.error
    assert 1e-6 < measured.secs < 1e-3


def test_a_right_kernel_is_timed_with_a_cold_cache(pool: Pool) -> None:
    (measured,) = outcomes(pool, bound())
    assert measured.ok, measured.error
    assert measured.is_proven
    # 8 MiB at no more than 5 TB/s: a warm cache would be faster.
    assert measured.secs > 8 * LENGTH / 5e12


def test_a_wrong_kernel_is_refused(pool: Pool) -> None:
    (measured,) = outcomes(pool, bound(factor=2.5))
    assert measured.code == "E_NUMERICS"


def test_a_store_past_the_end_is_seen(pool: Pool) -> None:
    (measured,) = outcomes(pool, bound(offset=64))
    assert measured.code in {"E_GUARD", "E_NUMERICS"}


def test_an_illegal_address_poisons_nothing(pool: Pool) -> None:
    """Case C7: a right kernel behind a wild one is right, and is timed the same."""
    before, wild, after = outcomes(pool, bound(), bound(offset=2_000_000_000), bound())
    assert before.ok, before.error
    assert wild.code == "E_CRASH"
    assert "illegal" in wild.error
    assert after.ok, after.error
    assert 0.5 < after.secs / before.secs < 2.0


def linear_and_bias() -> tvm.IRModule:
    a, w = te.placeholder((1, 512), "float16", "a"), te.placeholder((1000, 512), "float16", "w")
    bias, k = te.placeholder((1000,), "float16", "bias"), te.reduce_axis((0, 512), "k")
    total = te.compute(
        (1, 1000),
        lambda i, j: te.sum(a[i, k].astype("float32") * w[j, k].astype("float32"), axis=k),
        "total",
    )
    out = te.compute(
        (1, 1000), lambda i, j: (total[i, j] + bias[j].astype("float32")).astype("float16"), "out"
    )
    return tvm.IRModule({"main": te.create_prim_func([a, w, bias, out])})


def test_a_thin_half_product_with_a_bias_tunes(tmp_path: Path) -> None:
    """Case B7: M=1, N=1000, K=512 of float16; a candidate that fails costs only itself."""
    report = tune(
        linear_and_bias(),
        "cuda-h200",
        tmp_path / "work",
        8,
        proposer="experience",
        memory=str(tmp_path / "memory.sqlite"),
        seed=1,
    )
    (task,) = report.tasks
    assert task.baseline_secs > 0
    assert report.failed < report.trials
    assert 0 < task.best_secs < 1e-3
