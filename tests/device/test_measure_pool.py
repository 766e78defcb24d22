# SPDX-License-Identifier: Apache-2.0
"""The measuring pool with real kernels: right, wrong, endless, crashing, and its own deaths."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import tvm
from tvm.script import tirx as T

from kope_tvm.errors import TargetError
from kope_tvm.measure import MeasureConfig, Pool
from kope_tvm.outcome import Measurement
from kope_tvm.target import Limits, TargetSpec

LOG = logging.getLogger(__name__)
SPEC = TargetSpec(
    "host", {"kind": "llvm", "num-cores": 2}, limits=Limits(build_secs=20, run_secs=3)
)
QUICK = MeasureConfig(repeat=2, min_repeat_ms=5)


@T.prim_func(s_tir=True)
def _double(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")) -> None:
    T.func_attr({"global_symbol": "main"})
    for i in range(64):
        with T.sblock("B"):
            vi = T.axis.spatial(64, i)
            B[vi] = A[vi] * T.float32(2)


@T.prim_func(s_tir=True)
def _double_by_adding(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")) -> None:
    T.func_attr({"global_symbol": "main"})
    for i in T.vectorized(64):
        B[i] = A[i] + A[i]


@T.prim_func(s_tir=True)
def _triple(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")) -> None:
    T.func_attr({"global_symbol": "main"})
    for i in range(64):
        B[i] = A[i] * T.float32(3)


@T.prim_func(s_tir=True)
def _right_once(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")) -> None:
    T.func_attr({"global_symbol": "main"})
    # Only a poisoned output is not equal to itself.
    if B[0] == B[0]:
        for i in range(64):
            B[i] = A[i]
    else:
        for i in range(64):
            B[i] = A[i] * T.float32(2)


@T.prim_func(s_tir=True)
def _slow(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")) -> None:
    T.func_attr({"global_symbol": "main"})
    for i in range(64):
        B[i] = A[i] * T.float32(2)
    T.evaluate(T.call_extern("int32", "usleep", 350000))


@T.prim_func(s_tir=True)
def _half_written(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")) -> None:
    T.func_attr({"global_symbol": "main"})
    for i in range(63):
        B[i] = A[i] * T.float32(2)


@T.prim_func(s_tir=True)
def _input_written(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")) -> None:
    T.func_attr({"global_symbol": "main"})
    for i in range(64):
        B[i] = A[i] * T.float32(2)
        A[i] = T.float32(0)


@T.prim_func(s_tir=True)
def _endless(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")) -> None:
    T.func_attr({"global_symbol": "main"})
    B[0] = T.float32(0)
    while B[0] < T.float32(1):
        B[0] = A[0] * T.float32(0)


@T.prim_func(s_tir=True)
def _out_of_bounds(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")) -> None:
    T.func_attr({"global_symbol": "main"})
    for i in range(64):
        B[i * 30000000] = A[i]


@T.prim_func(s_tir=True)
def _aborting(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")) -> None:
    T.func_attr({"global_symbol": "main"})
    B[0] = A[0]
    T.evaluate(T.call_extern("int32", "abort"))


@T.prim_func(s_tir=True)
def _leaving(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")) -> None:
    T.func_attr({"global_symbol": "main"})
    B[0] = A[0]
    T.evaluate(T.call_extern("int32", "exit", 0))


@T.prim_func(s_tir=True)
def _overflowing(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")) -> None:
    T.func_attr({"global_symbol": "main"})
    for i in range(64):
        B[i * 1000000007] = A[i]


@T.prim_func(s_tir=True)
def _unlinkable(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")) -> None:
    T.func_attr({"global_symbol": "main"})
    B[0] = A[0]
    T.evaluate(T.call_extern("int32", "kope_no_such_function"))


@T.prim_func(s_tir=True)
def _matmul(
    A: T.Buffer((64, 64), "float32"),
    B: T.Buffer((64, 64), "float32"),
    C: T.Buffer((64, 64), "float32"),
) -> None:
    T.func_attr({"global_symbol": "main"})
    for i, j, k in T.grid(64, 64, 64):
        with T.sblock("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


@T.prim_func(s_tir=True)
def _matmul_backwards(
    A: T.Buffer((64, 64), "float32"),
    B: T.Buffer((64, 64), "float32"),
    C: T.Buffer((64, 64), "float32"),
) -> None:
    T.func_attr({"global_symbol": "main"})
    for i, j in T.grid(64, 64):
        C[i, j] = T.float32(0)
        for k in range(64):
            C[i, j] = C[i, j] + A[i, 63 - k] * B[63 - k, j]


@T.prim_func(s_tir=True)
def _two_outputs(
    A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")
) -> None:
    T.func_attr({"global_symbol": "main"})
    for i in range(8):
        with T.sblock("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] + 1
    for i in range(8):
        with T.sblock("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = A[vi] - 1


@T.prim_func(s_tir=True)
def _second_output_wrong(
    A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")
) -> None:
    T.func_attr({"global_symbol": "main"})
    for i in range(8):
        B[i] = A[i] + 1
        C[i] = A[i] + 1


@T.prim_func(s_tir=True)
def _take(
    A: T.Buffer((5, 4), "float32"), rows: T.Buffer((9,), "int64"), B: T.Buffer((9, 4), "float32")
) -> None:
    T.func_attr({"global_symbol": "main"})
    for i, j in T.grid(9, 4):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[rows[vi], vj]


@T.prim_func(s_tir=True)
def _accumulate(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")) -> None:
    T.func_attr({"global_symbol": "main"})
    for i in range(8):
        with T.sblock("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = B[vi] + A[vi]


@T.prim_func(s_tir=True)
def _scaled(A: T.Buffer((8,), "int32"), n: T.int32, B: T.Buffer((8,), "int32")) -> None:
    T.func_attr({"global_symbol": "main"})
    for i in range(8):
        with T.sblock("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] * n


@T.prim_func(s_tir=True)
def _empty(A: T.Buffer((0, 4), "float32"), B: T.Buffer((0, 4), "float32")) -> None:
    T.func_attr({"global_symbol": "main"})
    for i, j in T.grid(0, 4):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = T.exp(A[vi, vj])


def _mod(func: tvm.tirx.PrimFunc) -> tvm.IRModule:
    return tvm.IRModule({"main": func})


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with Pool(SPEC, QUICK, LOG) as shared:
        yield shared


def _outcomes(
    pool: Pool, funcs: Sequence[tvm.tirx.PrimFunc], reference: tvm.tirx.PrimFunc
) -> list[Measurement]:
    found = dict(pool.measure([_mod(func) for func in funcs], reference=_mod(reference)))
    return [found[index] for index in range(len(funcs))]


def test_a_right_kernel_is_checked_and_timed(pool: Pool) -> None:
    (outcome,) = _outcomes(pool, [_double_by_adding], _double)
    assert outcome.ok
    assert len(outcome.run_secs) == 2
    assert 0 < outcome.secs < 1e-3
    assert outcome.max_error <= 1
    assert outcome.build_secs > 0


def test_baseline_is_the_untuned_time(pool: Pool) -> None:
    outcome = pool.baseline(_mod(_matmul))
    assert outcome.ok
    assert 1e-6 < outcome.secs < 1e-1


@pytest.mark.parametrize("wrong", [_triple, _half_written])
def test_wrong_numbers_are_refused(pool: Pool, wrong: tvm.tirx.PrimFunc) -> None:
    (outcome,) = _outcomes(pool, [wrong], _double)
    assert (outcome.ok, outcome.stage, outcome.code) == (False, "check", "E_NUMERICS")
    assert outcome.max_error > 1
    assert " at [" in outcome.error


def test_numbers_that_are_wrong_in_a_later_call_are_refused(pool: Pool) -> None:
    (outcome,) = _outcomes(pool, [_right_once], _double)
    assert (outcome.ok, outcome.code) == (False, "E_NUMERICS")


def test_a_slow_candidate_gets_one_repeat(pool: Pool) -> None:
    started = time.monotonic()
    (outcome,) = _outcomes(pool, [_slow], _double)
    assert outcome.ok, outcome.error
    assert len(outcome.run_secs) == 1
    assert 0.35 < outcome.secs < 1
    assert time.monotonic() - started < 3


def test_a_hopeless_candidate_is_timed_by_its_first_call(pool: Pool) -> None:
    given = [_mod(_slow), _mod(_double_by_adding)]
    found = dict(pool.measure(given, reference=_mod(_double), hopeless_secs=0.2))
    assert (len(found[0].run_secs), len(found[1].run_secs)) == (1, 2)
    assert 0.35 < found[0].secs < 1
    assert found[0].device_secs < 0.7


def test_every_output_is_compared(pool: Pool) -> None:
    right, wrong = _outcomes(pool, [_two_outputs, _second_output_wrong], _two_outputs)
    assert right.ok
    assert wrong.code == "E_NUMERICS"
    assert wrong.error.endswith("of C")


def test_a_changed_input_is_refused(pool: Pool) -> None:
    (outcome,) = _outcomes(pool, [_input_written], _double)
    assert outcome.code == "E_INPUT_WRITTEN"


def test_another_signature_is_refused(pool: Pool) -> None:
    (outcome,) = _outcomes(pool, [_matmul], _double)
    assert outcome.code == "E_NUMERICS"
    assert "expected (A: float32[64], B: float32[64])" in outcome.error


@pytest.mark.parametrize("func", [_take, _accumulate, _scaled, _empty])
def test_odd_signatures_are_right_by_themselves(pool: Pool, func: tvm.tirx.PrimFunc) -> None:
    (outcome,) = _outcomes(pool, [func], func)
    assert outcome.ok, outcome.error


def test_an_endless_kernel_costs_only_itself(pool: Pool) -> None:
    started = time.monotonic()
    endless, right = _outcomes(pool, [_endless, _double], _double)
    assert (endless.code, endless.stage) == ("E_TIMEOUT", "run")
    assert endless.error == "killed after 3 s"
    assert right.ok
    assert time.monotonic() - started < 20


def test_a_crash_names_its_signal_and_costs_only_itself(pool: Pool) -> None:
    outcomes = _outcomes(pool, [_out_of_bounds, _aborting, _leaving, _double], _double)
    assert [outcome.code for outcome in outcomes] == ["E_CRASH", "E_CRASH", "E_CRASH", ""]
    assert "SIGSEGV" in outcomes[0].error
    assert "SIGABRT" in outcomes[1].error
    assert "exited with status 0" in outcomes[2].error


def test_a_build_error_says_what_failed(pool: Pool) -> None:
    overflowing, right = _outcomes(pool, [_overflowing, _double], _double)
    assert (overflowing.code, overflowing.stage) == ("E_BUILD", "build")
    assert "exceeds range of int32" in overflowing.error
    assert right.ok


def test_a_missing_symbol_is_named(pool: Pool) -> None:
    (unlinkable,) = _outcomes(pool, [_unlinkable], _double)
    assert unlinkable.code == "E_CRASH"
    assert "kope_no_such_function" in unlinkable.error


def test_another_order_of_summation_is_right_but_not_the_same(pool: Pool) -> None:
    (outcome,) = _outcomes(pool, [_matmul_backwards], _matmul)
    assert outcome.ok
    assert 0 < outcome.max_error < 0.1


def test_a_module_that_is_none_is_a_build_error(pool: Pool) -> None:
    ((_, outcome),) = pool.measure([b"no module"])
    assert outcome.code == "E_BUILD"


def test_no_reference_means_no_best(pool: Pool) -> None:
    (outcome,) = _outcomes(pool, [_double], _aborting)
    assert (outcome.code, outcome.stage) == ("E_DEVICE", "check")
    assert "SIGABRT" in outcome.error


def test_symbolic_shapes_are_refused_by_name(pool: Pool) -> None:
    @T.prim_func(s_tir=True)
    def symbolic(a: T.handle, b: T.handle) -> None:
        T.func_attr({"global_symbol": "main"})
        n = T.int64()
        A = T.match_buffer(a, (n, 4), "float32")
        B = T.match_buffer(b, (n, 4), "float32")
        for i, j in T.grid(n, 4):
            with T.sblock("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = T.exp(A[vi, vj])

    outcome = pool.baseline(_mod(symbolic))
    assert outcome.code == "E_BUILD"
    assert "symbolic shape" in outcome.error


def test_memory_is_limited() -> None:
    spec = replace(SPEC, limits=replace(SPEC.limits, memory_bytes=256 << 20))

    @T.prim_func(s_tir=True)
    def huge(A: T.Buffer((1 << 28,), "float32"), B: T.Buffer((4,), "float32")) -> None:
        T.func_attr({"global_symbol": "main"})
        for i in range(4):
            B[i] = A[i]

    with Pool(spec, QUICK, LOG) as small:
        outcome = small.baseline(_mod(huge))
        assert outcome.code == "E_CRASH"
        assert small.baseline(_mod(_double)).ok


def test_leaving_the_loop_early_leaves_the_pool_usable(pool: Pool) -> None:
    for _ in pool.measure([_mod(_double)] * 4, reference=_mod(_double)):
        break
    (outcome,) = _outcomes(pool, [_double], _double)
    assert outcome.ok


def test_killing_the_zygote_loses_no_candidate() -> None:
    with Pool(SPEC, QUICK, LOG) as pool:
        outcomes = {}
        for index, outcome in pool.measure([_mod(_double)] * 6, reference=_mod(_double)):
            outcomes[index] = outcome
            if len(outcomes) == 2:
                os.kill(pool.zygote_pid, signal.SIGKILL)
    assert sorted(outcomes) == list(range(6))
    assert all(outcome.ok for outcome in outcomes.values())


def test_sixteen_matmuls_take_seconds(pool: Pool) -> None:
    started = time.monotonic()
    outcomes = _outcomes(pool, [_matmul] * 16, _matmul)
    assert all(outcome.ok for outcome in outcomes)
    assert time.monotonic() - started < 20


def test_busy_cores_lose_no_candidate() -> None:
    spec = replace(SPEC, limits=Limits(build_secs=1.0, run_secs=1.0))
    with _busy(4), Pool(spec, QUICK, LOG) as pool:
        outcomes = _outcomes(pool, [_matmul] * 8, _matmul)
    assert [outcome.code for outcome in outcomes] == [""] * 8


def test_no_process_outlives_a_killed_tuner(tmp_path: Path) -> None:
    script = tmp_path / "tuner.py"
    script.write_text(_TUNER)
    arguments = [sys.executable, str(script), *sys.path]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as tuner:
        assert tuner.stdout is not None
        zygote = int(tuner.stdout.readline())
        children = _wait_for_children(zygote)
        os.kill(tuner.pid, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while _living([zygote, *children]) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert children
    assert _living([zygote, *children]) == []


def test_no_child_outlives_a_killed_zygote(tmp_path: Path) -> None:
    script = tmp_path / "tuner.py"
    script.write_text(_TUNER)
    arguments = [sys.executable, str(script), *sys.path]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as tuner:
        assert tuner.stdout is not None
        zygote = int(tuner.stdout.readline())
        children = _wait_for_children(zygote)
        os.kill(zygote, signal.SIGKILL)
        time.sleep(1)
        left = _living(children)
        tuner.kill()
    assert children
    assert left == []


def test_a_target_behind_a_tracker_is_refused() -> None:
    with pytest.raises(TargetError, match="RPC tracker"):
        Pool(replace(SPEC, rpc_key="board"), QUICK, LOG)


_TUNER = textwrap.dedent("""
    import logging, sys
    sys.path[:] = sys.argv[1:]
    import tvm
    from tvm.script import tirx as T
    from kope_tvm.measure import MeasureConfig, Pool
    from kope_tvm.target import TargetSpec

    @T.prim_func(s_tir=True)
    def endless(A: T.Buffer((64,), "float32")) -> None:
        T.func_attr({"global_symbol": "main"})
        A[0] = T.float32(0)
        while A[0] < T.float32(1):
            A[0] = A[0] * T.float32(0)

    spec = TargetSpec("host", {"kind": "llvm", "num-cores": 2})
    pool = Pool(spec, MeasureConfig(), logging.getLogger())
    print(pool.zygote_pid, flush=True)
    print(list(pool.measure([tvm.IRModule({"main": endless})])))
""")


def _spin() -> None:
    while True:
        pass


@contextlib.contextmanager
def _busy(num_processes: int) -> Iterator[None]:
    spawn = multiprocessing.get_context("spawn")
    spinners = [spawn.Process(target=_spin, daemon=True) for _ in range(num_processes)]
    for spinner in spinners:
        spinner.start()
    try:
        yield
    finally:
        for spinner in spinners:
            spinner.kill()
            spinner.join()


def _wait_for_children(pid: int) -> list[int]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        children = [int(child) for child in path.read_text().split()]
        if children:
            return children
        time.sleep(0.05)
    return []


def _living(pids: Sequence[int]) -> list[int]:
    return [pid for pid in pids if _state(pid) not in ("", "Z", "X")]


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""
