# SPDX-License-Identifier: Apache-2.0
"""Candidates that are measured in turns are built once, and every turn has a process of its own."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path

import measure_kernels as kernels
import pytest
import tvm
from measure_pool import LOG, QUICK, SPEC, mod_of
from tvm.script import tirx as T

from kope_tvm.measure import Pool
from kope_tvm.outcome import Measurement


@T.prim_func(s_tir=True)
def _in_parallel(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")) -> None:
    T.func_attr({"global_symbol": "main"})
    for i in T.parallel(64):
        with T.sblock("B"):
            vi = T.axis.spatial(64, i)
            B[vi] = A[vi] + A[vi]


def _turn(pool: Pool, funcs: Sequence[tvm.tirx.PrimFunc], **asked: float) -> list[Measurement]:
    mods = [mod_of(func) for func in funcs]
    found = dict(pool.measure(mods, reference=mod_of(kernels.double), is_last=False, **asked))
    return [found[index] for index in range(len(funcs))]


def test_the_second_turn_builds_nothing(pool: Pool) -> None:
    first = _turn(pool, [kernels.double, _in_parallel], prove_secs=1.0)
    second = _turn(pool, [kernels.double, _in_parallel], prove_secs=1.0)
    assert all(one.ok and one.is_proven for one in (*first, *second))
    # A build that was made anew takes other nanoseconds.
    assert [one.build_secs for one in second] == [one.build_secs for one in first]
    assert [one.run_secs for one in second] != [one.run_secs for one in first]


def test_a_wrong_one_is_wrong_in_every_turn(pool: Pool) -> None:
    codes = [_turn(pool, [kernels.triple])[0].code for _ in range(3)]
    assert codes == ["E_NUMERICS"] * 3


@pytest.mark.parametrize(
    ("func", "words"),
    [(kernels.aborting, "SIGABRT"), (kernels.leaving, "exited with status 0")],
)
def test_a_turn_that_dies_costs_only_itself(
    pool: Pool, func: tvm.tirx.PrimFunc, words: str
) -> None:
    for _ in range(2):
        died, right = _turn(pool, [func, kernels.double])
        assert died.code == "E_CRASH"
        assert words in died.error
        assert right.ok


def test_a_turn_that_hangs_is_ended(pool: Pool) -> None:
    started = time.monotonic()
    hung, right = _turn(pool, [kernels.endless, kernels.double])
    assert (hung.code, hung.error) == ("E_TIMEOUT", "killed after 3 s")
    assert right.ok
    assert time.monotonic() - started < 20


def test_baselines_made_together_are_what_each_is_alone(pool: Pool) -> None:
    mods = [
        mod_of(func) for func in (kernels.aborting, kernels.triple, _in_parallel, kernels.leaving)
    ]
    pool.prepare(mods)
    codes = [pool.baseline(mod).code for mod in mods]
    assert codes == ["E_CRASH", "", "", "E_CRASH"]
    (right,) = dict(pool.measure([mod_of(_in_parallel)], reference=mod_of(_in_parallel))).values()
    assert right.ok


def test_what_waits_ends_with_the_forking_process() -> None:
    with Pool(SPEC, QUICK, LOG) as pool:
        assert _turn(pool, [kernels.double])[0].ok
        (waiting,) = _children(pool.zygote_pid)
        os.kill(pool.zygote_pid, signal.SIGKILL)
        assert _turn(pool, [kernels.double])[0].ok
        assert not _is_alive(waiting)


def test_closing_the_pool_ends_what_waits() -> None:
    with Pool(SPEC, QUICK, LOG) as pool:
        assert _turn(pool, [kernels.double])[0].ok
        (waiting,) = _children(pool.zygote_pid)
    assert not _is_alive(waiting)


def test_only_a_few_wait() -> None:
    with Pool(SPEC, QUICK, LOG) as pool:
        mods = [mod_of(kernels.double.with_attr("number", number)) for number in range(9)]
        assert all(one.ok for _, one in pool.measure(mods, is_last=False))
        deadline = time.monotonic() + 5
        while len(_children(pool.zygote_pid)) > 6 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert len(_children(pool.zygote_pid)) == 6


def _children(pid: int) -> list[int]:
    return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
