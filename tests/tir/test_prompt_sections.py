# SPDX-License-Identifier: Apache-2.0
"""What each section says of a real task, and that prompts stay within their limits."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from functools import cache

import pytest
import tvm
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tvm import te, topi

from kope_tvm.candidate import Candidate
from kope_tvm.chat.tokens import bound
from kope_tvm.context import Context, Trial
from kope_tvm.machine import read_target
from kope_tvm.operators import parse_operator
from kope_tvm.outcome import Measurement, Verdict, accept, refuse
from kope_tvm.prompt.brief import brief
from kope_tvm.prompt.loop_tree import loop_tree
from kope_tvm.prompt.notes import notes_of
from kope_tvm.prompt.repair import MOST_TOKENS, refusal_brief, repair_brief
from kope_tvm.prompt.reply import Refused, read_reply
from kope_tvm.prompt.sections import sections
from kope_tvm.prompt.sections.menu import drop_out
from kope_tvm.prompt.texts import filled, text
from kope_tvm.prompt.view import LANES, View
from kope_tvm.proposal import Decisions, Origin, Plan, Rewrite, Step
from kope_tvm.space import neighbours
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


def test_the_untuned_function_in_two_lines() -> None:
    tree = loop_tree(bench_of(MATMUL).mod)
    assert tree.buffers == "(A:f32[81,19], B:f32[19,41], out matmul:f32[81,41])"
    assert tree.shown(1000) == ("i0:81 i1:41 k:19 matmul: [i0,i1]=_+A[i0,k]*B[k,i1]; init 0",)
    assert tree.loops == (("matmul", ("i0", "i1", "k")),)


def test_a_large_function_is_cut_to_its_busiest_nest_and_counted() -> None:
    tree = loop_tree(bench_of(SOFTMAX).mod)
    assert tree.shown(100)[-1] == (
        "(3 smaller nests not shown: T_softmax_exp, T_softmax_expsum, T_softmax_norm)"
    )
    assert len(tree.shown(100)) == 2


def test_the_outline_of_the_incumbent_tells_kinds_of_loops_and_no_statement_twice() -> None:
    view = view_of(MATMUL, first_guess(bench_of(MATMUL)))
    lines = section(view, "incumbent").splitlines()
    assert " k:19 i0:3u i1:3u i1:16v matmul_update" in [line[1:] for line in lines]
    prompt = brief(view).prompt
    assert prompt.count("A[i0,k]*B[k,i1]") == 1


def test_knobs_say_what_they_turn() -> None:
    view = view_of(MATMUL, first_guess(bench_of(MATMUL)))
    assert "\nd9=3 of 1,3,9: unrolled matmul.i0\n" in section(view, "incumbent")


def test_headroom_comes_from_the_measured_roof_only() -> None:
    view = view_of(MATMUL, first_guess(bench_of(MATMUL)))
    assert "roof" not in brief(view).prompt
    near = replace(view, context=replace(view.context, roof_secs=7e-6))
    assert "8 us, 10x over untuned, 87.5% of the roof, expect small gains" in brief(near).prompt


def test_before_the_first_measurement_first_guesses_are_offered() -> None:
    made = brief(view_of(MATMUL))
    assert "Nothing was measured yet." in made.prompt
    assert list(made.states)[:2] == ["r1", "r2"]


def test_tried_settings_are_told_by_what_differs_and_refusals_by_mechanism() -> None:
    bench = bench_of(MATMUL)
    best = first_guess(bench)
    space = bench.rule_spaces[0]
    knob = next(knob for knob in space.knobs if neighbours(knob))
    near = Decisions(space.name, space.turned({knob.index: 0}).trace)
    vectorize = Step("vectorize", {"block": "matmul", "loop": "k"})
    split = Step("split", {"block": "matmul", "loop": "k", "factors": [19, 1]})
    refused = [
        Trial(f"p{i}", Plan(steps), refuse("plan", "E_STEP", f"step {len(steps)}: k reduces"))
        for i, steps in enumerate(((vectorize,), (split, vectorize)))
    ]
    told = section(
        view_of(MATMUL, best, Trial("a2", near, accept("d"), ran(12e-6)), *refused), "tried"
    )
    assert told.splitlines() == [
        "rule:matmul_x86 8 us (best of 2)",
        "s1 but d9=1 => 1.5x its time",
        "E_STEP 2 times, plan: vectorize matmul: step 2: k reduces",
    ]


def test_what_was_taken_for_cheating_is_no_example() -> None:
    verdict = refuse("static", "E_INPUT_WRITTEN", "writes A", suspicious=True)
    trial = Trial("x", Rewrite("a trick"), verdict)
    told = section(view_of(MATMUL, trial), "tried")
    assert told == "E_INPUT_WRITTEN, refused as cheating: writes A"


def test_one_failure_is_told_with_the_successes() -> None:
    good = tuple(Told(f"#{i} 1 -> 2", 2.0) for i in range(8))
    bad = Told("plan: unroll C", 0.0, "E_BUILD", "no object after 30 s", space="")
    lines = section(view_of(MATMUL, transitions=(*good, bad)), "transitions").splitlines()
    assert lines[0] == "plan: unroll C => E_BUILD no object after 30 s (t)"
    assert lines[1] == "d0 1 -> 2 => 2x (t, sketch)"
    assert len(lines) == 5


def test_the_menu_drops_out_by_seed_and_round() -> None:
    moves = notes_of(bench_of(SOFTMAX)).moves
    kept = drop_out(moves, "7:2")
    assert kept == drop_out(moves, "7:2")
    assert kept != drop_out(moves, "7:3")
    assert 10 <= len(kept) <= 16 < len(moves)
    assert {move.mechanism for move in kept} >= {"tile", "vectorize", "fuse", "place"}


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


def test_the_decisions_a_prompt_offers_can_be_taken() -> None:
    view = view_of(MATMUL, first_guess(bench_of(MATMUL)))
    made = brief(view)
    text = '{"proposals":[{"lane":"decisions","from":"s1","values":[{"knob":"d9","value":9}]}]}'
    (found,) = read_reply(text, made.states, view.lanes).proposals
    assert isinstance(bench_of(MATMUL).apply(found), Candidate)


def test_the_schema_names_programs_knobs_and_values() -> None:
    made = brief(view_of(MATMUL, first_guess(bench_of(MATMUL)), lanes=("decisions",)))
    fields = made.schema["properties"]["proposals"]["items"]["anyOf"][0]["properties"]
    assert fields["lane"]["enum"] == ["decisions"]
    assert fields["from"]["enum"] == ["s1", "r1", "r2"]
    pair = fields["values"]["items"]["properties"]
    assert "d9" in pair["knob"]["enum"]
    assert pair["value"] == {"anyOf": [{"type": "number", "enum": [1, 2, 3, 4, 6, 7, 9, 12, 14]}]}
    assert bound(json.dumps(made.schema, separators=(",", ":"))) <= 700


@pytest.mark.parametrize("lane", LANES)
def test_a_repair_shows_what_failed_and_nothing_else(lane: str) -> None:
    bench = bench_of(MATMUL)
    proposal = {
        "decisions": first_guess(bench).proposal,
        "plan": Plan((Step("vectorize", {"block": "matmul", "loop": "k"}),)),
        "rewrite": Rewrite("def main(): ..."),
    }[lane]
    failed = Trial("f", proposal, refuse("plan", "E_STEP", "step 1: k reduces"))
    made = repair_brief(view_of(MATMUL), failed, fixes=(Told("plan: vectorize j", reason="same"),))
    assert made.prompt.startswith(
        "## How it failed\nE_STEP step 1: k reduces\n## What was proposed\n"
    )
    assert made.prompt.endswith("same -> plan: vectorize j: worked")
    assert made.tokens_bound <= MOST_TOKENS
    assert "## Machine" not in made.prompt
    assert list(made.states) == (["f1"] if lane == "decisions" else [])


def test_what_could_not_be_read_can_be_asked_for_again() -> None:
    refused = Refused(refuse("reply", "E_REPLY", "from 's9': no such program"), '{"from":"s9"}')
    made = refusal_brief(view_of(MATMUL), refused)
    assert '{"from":"s9"}' in made.prompt
    assert made.tokens_bound <= MOST_TOKENS


words = st.text(max_size=300)
told = st.builds(
    Told,
    words,
    st.floats(0, 1e6),
    st.sampled_from(["", "E_BUILD"]),
    words,
    words,
    st.floats(0, 1),
    words,
)
lanes = st.lists(st.sampled_from(LANES), unique=True).map(tuple)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    spec=st.sampled_from([MATMUL, SOFTMAX]),
    limit=st.integers(100, 4000),
    is_measured=st.booleans(),
    open_lanes=lanes,
    lines=st.lists(words, max_size=4).map(tuple),
    transitions=st.lists(told, max_size=6).map(tuple),
    secs=st.floats(0, 1e3),
)
def test_no_prompt_is_over_its_limit(
    spec: str,
    limit: int,
    is_measured: bool,
    open_lanes: tuple[str, ...],
    lines: tuple[str, ...],
    transitions: tuple[Told, ...],
    secs: float,
) -> None:
    trials = (first_guess(bench_of(spec), max(secs, 1e-9)),) if is_measured else ()
    view = view_of(
        spec,
        *trials,
        lanes=open_lanes,
        lanes_reason=" ".join(lines)[:400],
        lessons=lines,
        feedback=lines,
        transitions=transitions,
        limit_tokens=limit,
    )
    made = brief(view)
    assert made.tokens_bound <= limit
    assert bound(made.system) + bound(made.prompt) <= limit
