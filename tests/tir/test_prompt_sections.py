# SPDX-License-Identifier: Apache-2.0
"""What each section says of a real task."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from prompt_checks import MATMUL, SOFTMAX, Told, bench_of, first_guess, ran, section, view_of

from kope_tvm.candidate import Candidate
from kope_tvm.chat.tokens import bound
from kope_tvm.context import Trial
from kope_tvm.outcome import accept, refuse
from kope_tvm.prompt.brief import brief
from kope_tvm.prompt.loop_tree import loop_tree
from kope_tvm.prompt.notes import notes_of
from kope_tvm.prompt.repair import MOST_TOKENS, refusal_brief, repair_brief
from kope_tvm.prompt.reply import Refused, read_reply
from kope_tvm.prompt.sections.menu import drop_out
from kope_tvm.prompt.view import LANES
from kope_tvm.proposal import Decisions, Plan, Rewrite, Step
from kope_tvm.space import neighbours


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
