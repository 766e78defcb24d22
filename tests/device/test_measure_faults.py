# SPDX-License-Identifier: Apache-2.0
"""Kernels that crash, hang or do not build, and the measuring pool's own deaths."""

from __future__ import annotations

import contextlib
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

import measure_kernels as kernels
from measure_pool import LOG, QUICK, SPEC, measured, mod_of
from tvm.script import tirx as T

from kope_tvm.measure import Pool
from kope_tvm.target import Limits


@T.prim_func(s_tir=True)
def _out_of_bounds(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")) -> None:
    T.func_attr({"global_symbol": "main"})
    for i in range(64):
        B[i * 30000000] = A[i]


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


def test_an_endless_kernel_costs_only_itself(pool: Pool) -> None:
    started = time.monotonic()
    endless, right = measured(pool, [kernels.endless, kernels.double], kernels.double)
    assert (endless.code, endless.stage) == ("E_TIMEOUT", "run")
    assert endless.error == "killed after 3 s"
    assert right.ok
    assert time.monotonic() - started < 20


def test_a_crash_names_its_signal_and_costs_only_itself(pool: Pool) -> None:
    outcomes = measured(
        pool, [_out_of_bounds, kernels.aborting, kernels.leaving, kernels.double], kernels.double
    )
    assert [outcome.code for outcome in outcomes] == ["E_CRASH", "E_CRASH", "E_CRASH", ""]
    assert "SIGSEGV" in outcomes[0].error
    assert "SIGABRT" in outcomes[1].error
    assert "exited with status 0" in outcomes[2].error


def test_a_build_error_says_what_failed(pool: Pool) -> None:
    overflowing, right = measured(pool, [_overflowing, kernels.double], kernels.double)
    assert (overflowing.code, overflowing.stage) == ("E_BUILD", "build")
    assert "exceeds range of int32" in overflowing.error
    assert right.ok


def test_a_missing_symbol_is_named(pool: Pool) -> None:
    (unlinkable,) = measured(pool, [_unlinkable], kernels.double)
    assert unlinkable.code == "E_CRASH"
    assert "kope_no_such_function" in unlinkable.error


def test_a_module_that_is_none_is_a_build_error(pool: Pool) -> None:
    ((_, outcome),) = pool.measure([b"no module"])
    assert outcome.code == "E_BUILD"


def test_no_reference_means_no_best(pool: Pool) -> None:
    (outcome,) = measured(pool, [kernels.double], kernels.aborting)
    assert (outcome.code, outcome.stage) == ("E_DEVICE", "check")
    assert "SIGABRT" in outcome.error


def test_memory_is_limited() -> None:
    spec = replace(SPEC, limits=replace(SPEC.limits, memory_bytes=256 << 20))

    @T.prim_func(s_tir=True)
    def huge(A: T.Buffer((1 << 28,), "float32"), B: T.Buffer((4,), "float32")) -> None:
        T.func_attr({"global_symbol": "main"})
        for i in range(4):
            B[i] = A[i]

    with Pool(spec, QUICK, LOG) as small:
        outcome = small.baseline(mod_of(huge))
        assert outcome.code == "E_CRASH"
        assert small.baseline(mod_of(kernels.double)).ok


def test_leaving_the_loop_early_leaves_the_pool_usable(pool: Pool) -> None:
    for _ in pool.measure([mod_of(kernels.double)] * 4, reference=mod_of(kernels.double)):
        break
    (outcome,) = measured(pool, [kernels.double], kernels.double)
    assert outcome.ok


def test_killing_the_zygote_loses_no_candidate() -> None:
    with Pool(SPEC, QUICK, LOG) as pool:
        outcomes = {}
        for index, outcome in pool.measure(
            [mod_of(kernels.double)] * 6, reference=mod_of(kernels.double)
        ):
            outcomes[index] = outcome
            if len(outcomes) == 2:
                os.kill(pool.zygote_pid, signal.SIGKILL)
    assert sorted(outcomes) == list(range(6))
    assert all(outcome.ok for outcome in outcomes.values())


def test_busy_cores_lose_no_candidate() -> None:
    spec = replace(SPEC, limits=Limits(build_secs=1.0, run_secs=1.0))
    with _busy(4), Pool(spec, QUICK, LOG) as pool:
        outcomes = measured(pool, [kernels.double] * 8, kernels.double)
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
