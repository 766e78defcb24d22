# SPDX-License-Identifier: Apache-2.0
"""Tensor-core candidates of MetaSchedule's become CUDA source, which TVM alone refuses."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

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
from kope_tvm.workbench import Workbench, make_task

_DRAWS = 200


def product() -> tvm.IRModule:
    """Of float16, summed in float32 and stored as float16, as a linear layer is."""
    left = te.placeholder((1024, 1024), "float16", "left")
    right = te.placeholder((1024, 1024), "float16", "right")
    k = te.reduce_axis((0, 1024), "k")
    wide = te.compute(
        (1024, 1024),
        lambda i, j: te.sum(left[i, k].astype("float32") * right[j, k].astype("float32"), axis=k),
        "product",
    )
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


def test_a_product_of_halves_gets_the_matrix_units_first() -> None:
    target = load_target("cuda-h200")
    bench = Workbench(make_task("product", product(), target))
    first = bench.rule_spaces[0]
    found = bench.apply(Decisions(first.name, first.trace))
    assert isinstance(found, Candidate)
    verdicts = [gate.check(found, bench.task) for gate in load_gates()]
    assert [str(verdict) for verdict in verdicts if not verdict.accepted] == []
    source = build(found.sch.mod, bench.tvm_target).mod.imports[0].inspect_source()
    assert "mma_sync" in source


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
