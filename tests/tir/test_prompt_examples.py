# SPDX-License-Identifier: Apache-2.0
"""What prompts give as examples is legal, word for word."""

from __future__ import annotations

import json
import re

import tvm
from prompt_checks import MATMUL, SOFTMAX, bench_of, ran, view_of
from tvm import te, topi

from kope_tvm.candidate import Candidate
from kope_tvm.context import Context, Trial
from kope_tvm.outcome import Verdict, accept
from kope_tvm.prompt.brief import brief
from kope_tvm.prompt.reply import read_reply
from kope_tvm.prompt.texts import filled, text
from kope_tvm.prompt.view import LANES, View
from kope_tvm.proposal import Origin, Plan, Step
from kope_tvm.workbench import Workbench, make_task


def test_the_matmul_example_is_a_legal_plan() -> None:
    text = filled("example_matmul", lanes=16, rows=9, vectors=3)
    steps = text.partition(": ")[2].partition(". Where")[0]
    names = {"C": "matmul", "C_local_pad": "matmul_local_pad", "i": "i0", "j": "i1"}
    assert applies(MATMUL, renamed(steps, names))


def test_the_example_for_rows_is_a_legal_plan() -> None:
    text = filled("example_rows", lanes=16, wide=64)
    steps = text.partition("read by OUT[i,j]: ")[2]
    names = {"SUM": "T_softmax_expsum", "OUT": "T_softmax_norm", "i": "i0", "j": "i1"}
    assert applies(SOFTMAX, renamed(steps, names))


def renamed(steps: str, names: dict[str, str]) -> list[str]:
    pattern = r"\b(" + "|".join(names) + r")\b"
    return re.sub(pattern, lambda found: names[found[1]], steps).split("; ")


def sum_bench() -> Workbench:
    data = te.placeholder((8, 4), name="A")
    mod = tvm.IRModule({"main": te.create_prim_func([data, topi.sum(data, axis=1)])})
    return Workbench(make_task("sum", mod, bench_of(MATMUL).task.target))


def test_the_rewrite_example_is_a_legal_rewrite_and_shown_as_a_tree() -> None:
    bench = sum_bench()
    line = next(line for line in text("lane_rewrite").splitlines() if line.startswith("{"))
    (rewrite,) = read_reply(line, {}, LANES).proposals
    assert isinstance(bench.apply(rewrite), Candidate)
    context = Context(
        bench.task, 2, 4, 21, 7, trials=(Trial("w", rewrite, accept("d"), ran(1e-6)),)
    )
    prompt = brief(View(context, bench)).prompt
    assert "\ni:8 k:4 C: [i]=_+A[i,k]; init 0\n" in prompt
    assert "T.grid" not in prompt


def test_the_steps_of_a_plan_that_leads_are_shown_as_lines() -> None:
    steps = (Step("unroll", {"block": "matmul", "loop": "k"}),)
    trial = Trial("p", Plan(steps, Origin("chat")), accept("device"), ran(1e-6))
    prompt = brief(view_of(MATMUL, trial)).prompt
    assert "s1 the best: plan by chat, 1 us, 80x over untuned\nunroll matmul k\n" in prompt
    assert "i0:81 i1:41 k:19u matmul" in prompt


def applies(spec: str, steps: list[str]) -> bool:
    text = json.dumps({"proposals": [{"lane": "plan", "steps": steps}]})
    (plan,) = read_reply(text, {}, LANES).proposals
    found = bench_of(spec).apply(plan)
    assert not isinstance(found, Verdict), str(found)
    return isinstance(found, Candidate)
