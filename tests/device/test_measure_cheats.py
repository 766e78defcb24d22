# SPDX-License-Identifier: Apache-2.0
"""Kernels that are right while they are looked at, fast without the work, or write elsewhere."""

from __future__ import annotations

import math
from dataclasses import replace

import measure_kernels as kernels
import numpy as np
import tvm
from measure_pool import LOG, QUICK, SPEC, measured, mod_of
from tvm.script import tirx as T

from kope_tvm.measure import MeasureConfig, Pool
from kope_tvm.measure.inputs import Distribution, contents
from kope_tvm.measure.job import Argument, Use

STEADY = MeasureConfig(number=20, repeat=2, min_repeat_ms=1)


@T.prim_func(s_tir=True)
def _right_for_ten_calls(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")) -> None:
    T.func_attr({"global_symbol": "main"})
    # The process's umask, 022 at first, counts the calls.
    T.evaluate(T.call_extern("int32", "umask", T.call_extern("int32", "umask", 0) + 1))
    if T.call_extern("int32", "umask", 100) < 28:
        for i in range(64):
            B[i] = A[i] * T.float32(2)
    else:
        T.evaluate(T.call_extern("int32", "umask", 100))


@T.prim_func(s_tir=True)
def _never_again(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")) -> None:
    T.func_attr({"global_symbol": "main"})
    if T.call_extern("int32", "umask", 7) != 7:
        for i in range(64):
            B[i] = A[i] * T.float32(2)


@T.prim_func(s_tir=True)
def _past_the_end(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")) -> None:
    T.func_attr({"global_symbol": "main"})
    for i in range(65):
        B[i] = A[i % 64] * T.float32(2)


@T.prim_func(s_tir=True)
def _before_the_start(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")) -> None:
    T.func_attr({"global_symbol": "main"})
    for i in range(65):
        B[i - 1] = A[(i + 63) % 64] * T.float32(2)


@T.prim_func(s_tir=True)
def _far_past_the_end(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")) -> None:
    T.func_attr({"global_symbol": "main"})
    for i in range(2048):
        B[i] = A[i % 64] * T.float32(2)


@T.prim_func(s_tir=True)
def _threads_left(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")) -> None:
    T.func_attr({"global_symbol": "main"})
    T.evaluate(T.call_packed("runtime.config_threadpool", 1, 8))
    for i in range(64):
        B[i] = A[i] * T.float32(2)


@T.prim_func(s_tir=True)
def _sum(A: T.Buffer((1048576,), "int32"), B: T.Buffer((1,), "int32")) -> None:
    T.func_attr({"global_symbol": "main"})
    for i in range(1048576):
        with T.sblock("B"):
            vi = T.axis.reduce(1048576, i)
            with T.init():
                B[0] = 0
            B[0] = B[0] + A[vi]


@T.prim_func(s_tir=True)
def _racing_sum(A: T.Buffer((1048576,), "int32"), B: T.Buffer((1,), "int32")) -> None:
    T.func_attr({"global_symbol": "main"})
    B[0] = 0
    for i in T.parallel(1048576):
        B[0] = B[0] + A[i]


@T.prim_func(s_tir=True)
def _slowly(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")) -> None:
    T.func_attr({"global_symbol": "main"})
    for i in range(64):
        B[i] = A[i] * T.float32(2)
    T.evaluate(T.call_extern("int32", "usleep", 2000))


def test_right_for_ten_calls_then_idle_is_refused() -> None:
    with Pool(SPEC, STEADY, LOG) as pool:
        (outcome,) = measured(pool, [_right_for_ten_calls], kernels.double)
    assert (outcome.ok, outcome.code) == (False, "E_NUMERICS")


def test_a_result_kept_from_the_first_call_is_refused(pool: Pool) -> None:
    (outcome,) = measured(pool, [_never_again], kernels.double)
    assert (outcome.ok, outcome.code) == (False, "E_NUMERICS")
    assert outcome.error.startswith("after timing: nan for ")
    assert "never written" in outcome.error


def test_writes_outside_are_seen_or_crash(pool: Pool) -> None:
    past, before, far, right = measured(
        pool, [_past_the_end, _before_the_start, _far_past_the_end, kernels.double], kernels.double
    )
    assert (past.code, before.code, far.code) == ("E_GUARD", "E_GUARD", "E_CRASH")
    assert past.error == "wrote 1 bytes past the end of B: float32[64]"
    assert before.error == "wrote 1 bytes before the start of B: float32[64]"
    assert "SIGSEGV" in far.error
    assert right.ok


def test_threads_left_running_are_refused(pool: Pool) -> None:
    (outcome,) = measured(pool, [_threads_left], kernels.double)
    assert (outcome.code, outcome.suspicious) == ("E_THREADS", True)
    assert outcome.error.endswith("allowed 0")


def test_a_race_is_refused(pool: Pool) -> None:
    (outcome,) = measured(pool, [_racing_sum], _sum)
    assert outcome.code in ("E_NUMERICS", "E_RACE")


def test_faster_than_the_machine_is_impossible(pool: Pool) -> None:
    given = [mod_of(kernels.double)]
    ((_, outcome),) = pool.measure(given, reference=mod_of(kernels.double), floor_secs=1e-2)
    assert (outcome.ok, outcome.code, outcome.suspicious) == (False, "E_IMPOSSIBLE", True)
    ((_, outcome),) = pool.measure(given, reference=mod_of(kernels.double), floor_secs=1e-9)
    assert outcome.ok


def test_ten_times_faster_than_the_best_is_proved_again_and_passes_if_right() -> None:
    with Pool(SPEC, QUICK, LOG) as pool:
        slow, fast = measured(pool, [_slowly, kernels.double], kernels.double)
    assert slow.is_proven
    assert fast.is_proven
    assert slow.secs > 10 * fast.secs


def _first_inputs() -> list[float]:
    """The first number of every case of seed 0."""
    argument = Argument("A", "float32", (64,), Use.READ)
    drawn = []
    for number, how in enumerate(Distribution):
        rng = np.random.default_rng([0, number])
        drawn.append(contents(argument, np.dtype(np.float32), how, rng, 0)[0])
    return [float(each) for each in drawn]


def _in(usecs: int, *, wrong_for: float = math.inf) -> tvm.tirx.PrimFunc:
    """Twice the input, after a sleep; wrong where the first number is `wrong_for`."""

    @T.prim_func(s_tir=True)
    def double(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")) -> None:
        T.func_attr({"global_symbol": "main"})
        for i in range(64):
            B[i] = A[i] * T.float32(2)
        if A[0] == T.float32(wrong_for):
            B[0] = T.float32(-1)
        T.evaluate(T.call_extern("int32", "usleep", usecs))

    return double


def test_what_takes_long_is_proved_at_the_end_if_it_is_the_best_then() -> None:
    with Pool(SPEC, QUICK, LOG) as pool:
        slowest, slow = measured(pool, [_in(60_000), _in(30_000)], kernels.double)
        slower, quick = measured(pool, [_in(25_000), kernels.double], kernels.double)
    assert (slowest.ok, slowest.is_proven) == (True, False)
    assert (slow.ok, slow.is_proven) == (True, True)
    assert (slower.ok, slower.is_proven) == (True, False)
    assert (quick.ok, quick.is_proven) == (True, True)


def test_what_takes_long_and_is_wrong_gives_way_to_the_next() -> None:
    _, _, integers, _ = _first_inputs()
    wrong = _in(30_000, wrong_for=integers)
    with Pool(SPEC, replace(QUICK, num_seeds=1), LOG) as pool:
        refused, right = measured(pool, [wrong, _in(60_000)], kernels.double)
    assert (refused.code, refused.suspicious) == ("E_NUMERICS", False)
    assert "integers 0" in refused.error
    assert (right.ok, right.is_proven) == (True, False)


def test_what_is_right_for_the_known_inputs_only_is_quarantined() -> None:
    uniform, wide, integers, special = _first_inputs()

    @T.prim_func(s_tir=True)
    def right_for_those(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")) -> None:
        T.func_attr({"global_symbol": "main"})
        for i in range(64):
            B[i] = A[i] * T.float32(2)
        if (
            A[0] != T.float32(uniform)
            and A[0] != T.float32(wide)
            and A[0] != T.float32(integers)
            and A[0] != T.float32(special)
        ):
            B[0] = T.float32(-1)

    with Pool(SPEC, replace(QUICK, num_seeds=1), LOG) as pool:
        slow, fast = measured(pool, [_slowly, right_for_those], kernels.double)
    assert slow.is_proven
    assert (fast.code, fast.suspicious) == ("E_QUARANTINE", True)
    assert fast.error.startswith("too fast, and wrong when proved again: E_NUMERICS ")


def test_only_what_beats_the_best_is_checked_on_every_case() -> None:
    given = [mod_of(_slowly)]
    with Pool(SPEC, QUICK, LOG) as pool:
        first, slower = measured(pool, [kernels.double, _slowly], kernels.double)
        ((_, asked),) = pool.measure(given, reference=mod_of(kernels.double), prove_secs=math.inf)
    assert (first.is_proven, slower.is_proven, asked.is_proven) == (True, False, True)


def test_a_cold_cache_is_slower() -> None:
    @T.prim_func(s_tir=True)
    def scale(A: T.Buffer((65536,), "float32"), B: T.Buffer((65536,), "float32")) -> None:
        T.func_attr({"global_symbol": "main"})
        for i in range(65536):
            with T.sblock("B"):
                vi = T.axis.spatial(65536, i)
                B[vi] = A[vi] * T.float32(2)

    found = []
    for flush in (False, True):
        config = MeasureConfig(4, 30, 0.05, enable_cpu_cache_flush=flush)
        with Pool(SPEC, config, LOG) as pool:
            found.append(measured(pool, [scale], scale)[0])
    warm, cold = found
    assert (len(warm.run_secs), len(cold.run_secs)) == (30, 120)
    # The least: a busy machine interrupts some of either.
    assert min(warm.run_secs) < min(cold.run_secs)
