# SPDX-License-Identifier: Apache-2.0
"""What the tests of prompts share: tasks on a fixed machine, and views of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

from kope_tvm.context import Context, Trial
from kope_tvm.machine import read_target
from kope_tvm.operators import parse_operator
from kope_tvm.outcome import Measurement, accept
from kope_tvm.prompt.sections import sections
from kope_tvm.prompt.view import View
from kope_tvm.proposal import Decisions, Origin
from kope_tvm.workbench import Workbench, make_task

MATMUL = "op:matmul:m=81,n=41,k=19"
SOFTMAX = "op:softmax:m=64,n=1024"


@dataclass(frozen=True)
class Told:
    """A transition, or a fix."""

    change: str = "#9 3 -> 9"
    ratio: float = 1.31
    code: str = ""
    reason: str = ""
    task_name: str = "t"
    similarity: float = 0.9
    space: str = "sketch"
    worked: bool = True
    state: str = ""


@cache
def bench_of(spec: str) -> Workbench:
    target = read_target("x86-avx512")
    config = {**target.tvm_target, "num-cores": 2}
    target = replace(target, tvm_target=config, facts=replace(target.facts, num_cores=2))
    return Workbench(make_task(spec, parse_operator(spec).tir(), target))


def first_guess(bench: Workbench, secs: float = 8e-6) -> Trial:
    space = bench.rule_spaces[0]
    return Trial(
        "a1", Decisions(space.name, space.trace, Origin("rules")), accept("device"), ran(secs)
    )


def ran(secs: float) -> Measurement:
    return Measurement((secs, secs, secs))


def view_of(spec: str, *trials: Trial, **more: object) -> View:
    bench = bench_of(spec)
    context = Context(bench.task, 2, 4, 21, 7, trials=trials, baseline_secs=80e-6)
    return replace(View(context, bench), **more)  # type: ignore[arg-type]


def section(view: View, name: str) -> str:
    return "\n".join(item.text for item in dict(sections())[name].items(view))
