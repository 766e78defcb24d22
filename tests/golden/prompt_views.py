# SPDX-License-Identifier: Apache-2.0
"""Views with fixed measurements on a fixed machine."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kope_tvm.context import Context, Trial
from kope_tvm.device.simulate.counted import Counted
from kope_tvm.device.simulate.opinions.mca import Piece, Report
from kope_tvm.machine import load_target, read_target
from kope_tvm.operators import parse_operator
from kope_tvm.outcome import Measurement, accept, refuse
from kope_tvm.prompt.notes import notes_of
from kope_tvm.prompt.view import LANES, View
from kope_tvm.proposal import Decisions, Origin, Plan, Step
from kope_tvm.space import neighbours
from kope_tvm.workbench import Workbench, make_task


@dataclass(frozen=True)
class Told:
    """A transition as memory tells it."""

    change: str
    ratio: float
    code: str = ""
    reason: str = ""
    task_name: str = "matmul 512"
    similarity: float = 0.9
    space: str = "rule:matmul_x86"
    state: str = ""


TRANSITIONS = (
    Told("#9 3 -> 9", 1.31),
    Told("plan: vectorize matmul (no tile)", 0.42, space=""),
    Told("plan: unroll matmul", 0.0, "E_BUILD", "no object after 30 s", space=""),
)

FEEDBACK = ("hot loop: 9 vfmadd231ps zmm, 3 loads, no spills",)
COUNTED = Counted(
    cycles=9549,
    clock_hz=1.6e9,
    instructions=36703,
    vector=21120,
    scalar=15583,
    memory=13117,
    branches=4500,
    wait_dependency=1505,
    wait_memory=721,
    wait_unit=35783,
    mispredicted=40,
    l1_misses=113,
    l2_misses=0,
    code_misses=0,
)
REPORT = Report(Piece(0x10000, 0x10108, 240, 17), 66, 104.0, "VFP", 64.0)
SIMULATED = ("hot loop: 66 instr, 32 fma v m1 e32, 34 loads", COUNTED.line, REPORT.line)


def bench_of(spec: str) -> Workbench:
    """The workbench of an operator on two cores with AVX-512, whatever this machine is."""
    target = read_target("x86-avx512")
    config = {**target.tvm_target, "num-cores": 2}
    target = replace(target, tvm_target=config, facts=replace(target.facts, num_cores=2))
    return Workbench(make_task(spec, parse_operator(spec).tir(), target))


def k1_bench_of(spec: str) -> Workbench:
    """The workbench of an operator on a SpacemiT K1."""
    return Workbench(make_task(spec, parse_operator(spec).tir(), load_target("spacemit-k1")))


def fresh_view(bench: Workbench) -> View:
    """Nothing measured yet."""
    context = Context(bench.task, 1, 4, 32, 7, baseline_secs=112e-6)
    return View(context, bench, ("plan", "decisions"), "nothing known of this function")


def later_view(bench: Workbench, feedback: tuple[str, ...] = FEEDBACK) -> View:
    """After a few rounds: an incumbent, a neighbour of it, a failure and a refusal."""
    trials = trials_of(bench)
    context = Context(
        bench.task, 3, 4, 21, 7, trials=trials, baseline_secs=112e-6, roof_secs=3.4e-6
    )
    return View(
        context,
        bench,
        LANES,
        "60% headroom, rule space leads",
        lessons=("matmul on avx512: rule:matmul_x86 was fastest in 7 of 9 tasks",),
        transitions=TRANSITIONS,
        feedback=feedback,
        tokens_left=8000,
        calls_left=5,
    )


def trials_of(bench: Workbench) -> tuple[Trial, ...]:
    space = bench.rule_spaces[0]
    knob = next(knob for knob in space.knobs if neighbours(knob))
    other = space.turned({knob.index: neighbours(knob)[0]})
    best = Decisions(space.name, space.trace, Origin("rules", change="first guess"))
    near = Decisions(space.name, other.trace, Origin("experience", "a1"))
    steps = (Step("vectorize", {"block": notes_of(bench).tree.blocks[-1], "loop": "k"}),)
    return (
        Trial("a1", best, accept("device"), Measurement((8.4e-6, 8.5e-6, 8.6e-6))),
        Trial("a2", near, accept("device"), Measurement((11.0e-6, 11.0e-6, 11.2e-6))),
        Trial("a3", Plan(steps), refuse("plan", "E_STEP", "step 1 vectorize(loop='k'): k reduces")),
        Trial(
            "a4",
            Plan((*steps, *steps)),
            accept("device"),
            Measurement(stage="run", error="max_rel 3.1e-2 at [63, 0..15]", code="E_NUMERICS"),
        ),
    )
