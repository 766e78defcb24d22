# SPDX-License-Identifier: Apache-2.0
"""Tensor-core candidates of MetaSchedule's become CUDA source, which TVM alone refuses."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tvm
from tvm import te
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import Trace

from kope_tvm.candidate import Candidate
from kope_tvm.gates import load_gates
from kope_tvm.llvm_build import build
from kope_tvm.machine import load_target
from kope_tvm.proposal import Decisions
from kope_tvm.quick_stack import quick_stack
from kope_tvm.schedules import matmul_cuda
from kope_tvm.workbench import Workbench, make_task

_DRAWS = 200


def product(depth: int = 1024, *, across: bool = False) -> tvm.IRModule:
    """Of float16, summed in float32 and stored as float16, as a linear layer is.

    The second operand lies [depth, column] where it is `across`.
    """
    left = te.placeholder((1024, depth), "float16", "left")
    right = te.placeholder((depth, 1024) if across else (1024, depth), "float16", "right")
    k = te.reduce_axis((0, depth), "k")

    def cell(i: Any, j: Any) -> Any:
        other = right[k, j] if across else right[j, k]
        return te.sum(left[i, k].astype("float32") * other.astype("float32"), axis=k)

    wide = te.compute((1024, 1024), cell, "product")
    out = te.compute(wide.shape, lambda *at: wide[at].astype("float16"), "out")
    return tvm.IRModule({"main": te.create_prim_func([left, right, out])})


def drawn(bench: Workbench) -> Iterator[Schedule]:
    """Candidates that MetaSchedule would measure."""
    context = bench.tune_context
    sketches = bench.sketch_schedules
    for seed in range(_DRAWS):
        sch = Schedule(bench.mod, seed=1 + seed, debug_mask="none")
        with bench.tvm_target:
            insts = sketches[seed % len(sketches)].trace.insts
            Trace(insts, {}).apply_to_schedule(sch, remove_postproc=True)
            sch.enter_postproc()
            if all(post.apply(sch) for post in context.space_generator.postprocs):
                yield sch


def test_all_that_pass_the_postprocessors_build() -> None:
    with quick_stack():
        bench = Workbench(make_task("product", product(), load_target("cuda-h200")))
        found = [sch for sch, _ in zip(drawn(bench), range(3), strict=False)]
    assert len(found) == 3
    for sch in found:
        source = build(sch.mod, bench.tvm_target).mod.imports[0].inspect_source()
        assert "wmma" in source


@pytest.mark.parametrize("across", [False, True])
def test_a_product_of_halves_gets_the_matrix_units_first(across: bool) -> None:
    target = load_target("cuda-h200")
    bench = Workbench(make_task("product", product(across=across), target))
    first = bench.rule_spaces[0]
    found = bench.apply(Decisions(first.name, first.trace))
    assert isinstance(found, Candidate)
    verdicts = [gate.check(found, bench.task) for gate in load_gates()]
    assert [str(verdict) for verdict in verdicts if not verdict.accepted] == []
    source = build(found.sch.mod, bench.tvm_target).mod.imports[0].inspect_source()
    assert "mma_sync" in source
    kernel = source[source.index('extern "C" __global__') :]
    assert "cp_async" in kernel


def test_a_product_too_shallow_for_them_keeps_the_other_tiles() -> None:
    func = product(16, across=True)["main"]
    assert len(matmul_cuda.schedule(func, load_target("cuda-h200"))) >= 2


def test_a_fresh_process_replays_what_tensorizes() -> None:
    target = load_target("cuda-h200")
    space = Workbench(make_task("product", product(), target)).rule_spaces[0]
    script = (
        "import sys; from test_cuda_build import *; "
        "bench = Workbench(make_task('product', product(), load_target('cuda-h200'))); "
        "print(type(bench.apply(Decisions('', sys.stdin.read()))).__name__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        input=space.trace,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parent,
        check=True,
    )
    assert done.stdout.strip() == "Candidate"
