# SPDX-License-Identifier: Apache-2.0
"""What a GPU cannot launch is refused before a compiler runs."""

from __future__ import annotations

import pytest
import tvm
from tvm import te

from kope_tvm.candidate import Candidate
from kope_tvm.gates.gpu_limits import GpuLimits
from kope_tvm.machine import load_target
from kope_tvm.outcome import Verdict
from kope_tvm.proposal import Decisions
from kope_tvm.workbench import make_task

EXTENT = 1 << 18


def verdict(threads: int, scope: str, tile: int, target: str = "cuda-h200") -> Verdict:
    """Of a copy by way of `scope`, `tile` elements of float32 a block of threads."""
    x = te.placeholder((EXTENT,), name="x")
    func = te.create_prim_func([x, te.compute((EXTENT,), lambda i: x[i] + 1.0, name="y")])
    sch = tvm.s_tir.Schedule(func)
    block = sch.get_sblock("y")
    staged = sch.cache_read(block, 0, scope)
    grid, _ = sch.split(sch.get_loops(block)[0], [None, tile])
    sch.compute_at(staged, grid)
    sch.bind(grid, "blockIdx.x")
    for each in (block, staged):
        loop = sch.get_loops(each)[-1]
        sch.bind(sch.split(loop, [None, threads])[1], "threadIdx.x")
    task = make_task("copy", tvm.IRModule({"main": func}), load_target(target))
    return GpuLimits().check(Candidate(Decisions("", ""), "", sch), task)


@pytest.mark.parametrize(
    ("threads", "scope", "tile", "reason"),
    [
        (2048, "shared", 4096, "2048 threads a block, at most 1024"),
        (256, "shared", 16384, "65536 bytes of static shared memory, at most 49152"),
        (256, "local", EXTENT, "1047556 bytes of a thread's own memory, at most 524288"),
        (256, "shared.dyn", 1 << 16, "262144 bytes of shared memory, at most 232448"),
    ],
)
def test_over_a_limit(threads: int, scope: str, tile: int, reason: str) -> None:
    found = verdict(threads, scope, tile)
    assert (found.accepted, found.code) == (False, "E_GPU")
    assert reason in found.reason


def test_within_the_limits() -> None:
    assert verdict(256, "shared", 4096).accepted
    assert verdict(256, "shared.dyn", 16384).accepted


def test_what_an_h100_takes_is_too_much_for_an_a100() -> None:
    assert verdict(256, "shared.dyn", 1 << 15, "cuda-h100").accepted is True
    tile = 45056  # 180224 bytes, between the two chips' limits
    assert EXTENT % tile  # the last block of threads is a part
    assert not verdict(256, "shared.dyn", tile, "cuda-a100").accepted


def test_a_cpu_has_no_such_limits() -> None:
    assert verdict(2048, "shared", 4096, "x86-avx2").accepted
