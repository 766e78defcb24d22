# SPDX-License-Identifier: Apache-2.0
"""What is made of a model's reply: legal proposals, and a reason for everything else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kope_tvm.prompt.reply import MAX_SCRIPT_CHARS, Reading, read_reply
from kope_tvm.proposal import Decisions, Origin, Plan, Rewrite
from kope_tvm.space import Space

LANES = ("decisions", "plan", "rewrite")
TRACE = json.dumps(
    [
        [
            ["GetSBlock", [], ["C", "main"], ["b0"]],
            ["GetLoops", ["b0"], [], ["l1"]],
            ["SampleCategorical", [], [[0, 16, 64], [0.3, 0.3, 0.4]], ["v2"]],
            ["SamplePerfectTile", ["l1"], [4, 64], ["v3", "v4", "v5", "v6"]],
            ["SampleComputeLocation", ["b0"], [], ["l7"]],
        ],
        [[2, 1], [3, [1, 1, 64, 8]], [4, -1]],
    ]
)
STEPS = [{"do": "vectorize", "block": "C", "loop": "i"}]


def state(lane: str, text: str, key: str = "a1") -> str:
    return json.dumps({"lane": lane, "space": "sketch", "text": text, "state": key})


STATES = {
    "s1": state("decisions", TRACE),
    "r1": state("decisions", TRACE, ""),
    "s2": state("plan", json.dumps(STEPS)),
    "s3": state("rewrite", json.dumps({"script": "def main(): ...", "then": None})),
}


def read(*proposals: Any, **more: Any) -> Reading:
    return read_reply(json.dumps({"proposals": proposals, **more}), STATES, LANES)


def decisions(**values: Any) -> dict[str, Any]:
    pairs = [{"knob": knob, "value": value} for knob, value in values.items()]
    return {"lane": "decisions", "why": "w", "from": "s1", "values": pairs}


def reason_of(proposal: Any) -> str:
    reading = read(proposal)
    assert reading.proposals == ()
    (refused,) = reading.refused
    return str(refused.verdict)


def test_decisions_turn_the_knobs_of_the_named_program() -> None:
    (found,) = read(decisions(d2=64, d3=[1, 2, 32, 8])).proposals
    assert isinstance(found, Decisions)
    assert [knob.value for knob in Space("sketch", found.trace).knobs] == [2, (1, 2, 32, 8), -1]
    assert (found.space, found.origin.parent) == ("sketch", "a1")
    assert found.origin.change == "#2 16 -> 64, #3 [1, 1, 64, 8] -> [1, 2, 32, 8]"


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (
            {"d3": [1, 2, 30, 8]},
            "d3 [1,2,30,8] multiplies to 480, the loop extent is 512; "
            "divisors 1,2,4,8,16,32,64,128,256,512",
        ),
        ({"d3": [2, 1, 2, 128]}, "d3 [2,1,2,128]: the last factor is at most 64"),
        ({"d3": [8, 64]}, "d3 [8,64]: expected 4 positive factors of 512"),
        ({"d3": [-1, 1, -64, 8]}, "d3 [-1,1,-64,8]: expected 4 positive factors of 512"),
        ({"d2": 32}, "d2 32 is none of 0, 16, 64"),
        ({"d2": True}, "d2 True is none of 0, 16, 64"),
        ({"d4": 1e300}, "d4 1e+300: expected -2, -1 or the number of a loop"),
        ({"d9": 1}, "no knob 'd9'; its knobs: d2, d3, d4"),
        ({"d2": 16}, "nothing changes; s1 was measured already"),
    ],
    ids=str,
)
def test_illegal_values_are_refused_with_the_legal_ones(
    values: dict[str, Any], reason: str
) -> None:
    assert reason_of(decisions(**values)) == f"E_REPLY decisions from s1: {reason}"


def test_a_first_guess_may_be_taken_as_it_is() -> None:
    (found,) = read({"lane": "decisions", "from": "r1", "values": []}).proposals
    assert (found.origin.parent, found.origin.change) == ("", "r1 as it is")


@pytest.mark.parametrize(
    ("proposal", "reason"),
    [
        (
            {"lane": "decisions", "from": "s9"},
            "E_REPLY from 's9': no such program; known: s1, r1, s2, s3",
        ),
        ({"lane": "decisions", "from": "s2"}, "E_REPLY from s2: it is a plan and has no knobs"),
        ({"lane": "cuda"}, "E_REPLY lane 'cuda' is not open; open: decisions, plan, rewrite"),
        ("plan", "E_REPLY proposal 1: expected an object"),
        (
            {"lane": "plan", "steps": ["split C"]},
            "E_STEP step 1 split(loop): missing; arguments: block, loop, factors, into",
        ),
        ({"lane": "rewrite"}, "E_REPLY rewrite: no script"),
        (
            {"lane": "rewrite", "script": "x" * (MAX_SCRIPT_CHARS + 1)},
            "E_REPLY rewrite: 20001 characters, at most 20000",
        ),
    ],
    ids=str,
)
def test_refusals_say_where_and_what(proposal: Any, reason: str) -> None:
    assert reason_of(proposal) == reason


def test_a_closed_lane_is_refused() -> None:
    text = json.dumps({"proposals": [{"lane": "plan", "steps": STEPS}], "stop": False})
    reading = read_reply(text, STATES, ("decisions",))
    assert str(reading.refused[0].verdict) == "E_REPLY lane 'plan' is not open; open: decisions"


def test_steps_are_lines_or_objects() -> None:
    lines, objects = read(
        {"lane": "plan", "why": "wide", "steps": ["vectorize C i", "unroll C k"]},
        {"lane": "plan", "steps": [*STEPS, {"do": "unroll", "block": "C", "loop": "j"}]},
    ).proposals
    assert isinstance(lines, Plan)
    assert isinstance(objects, Plan)
    assert [(one.primitive, one.args["loop"]) for one in lines.steps] == [
        ("vectorize", "i"),
        ("unroll", "k"),
    ]
    assert lines.origin.change == "plan: unroll C, vectorize C (wide)"


def test_a_plan_goes_on_from_a_plan() -> None:
    (found,) = read({"lane": "plan", "from": "s2", "steps": ["unroll C k"]}).proposals
    assert isinstance(found, Plan)
    assert [one.primitive for one in found.steps] == ["vectorize", "unroll"]
    assert found.origin.parent == "a1"


def test_a_plan_from_a_rewrite_schedules_it() -> None:
    (found,) = read({"lane": "plan", "from": "s3", "steps": ["unroll C k"]}).proposals
    assert isinstance(found, Rewrite)
    assert found.script == "def main(): ..."
    assert isinstance(found.then, Plan)


def test_a_rewrite_is_passed_on_as_text() -> None:
    (found,) = read({"lane": "rewrite", "script": "import os", "why": "fewer\npasses"}).proposals
    assert isinstance(found, Rewrite)
    assert (found.script, found.then) == ("import os", None)
    assert found.origin.change == "rewrite: fewerpasses"


def test_one_bad_proposal_does_not_lose_the_others() -> None:
    reading = read(decisions(d2=32), decisions(d2=64), 7, decisions(d2=64))
    assert len(reading.proposals) == 1
    assert [str(one.verdict) for one in reading.refused] == [
        "E_REPLY decisions from s1: d2 32 is none of 0, 16, 64",
        "E_REPLY proposal 3: expected an object",
        "E_REPLY proposal 4 is proposal 2 again",
    ]


def test_eight_proposals_are_enough() -> None:
    many = [{"lane": "plan", "steps": [f"unroll C k{i}"]} for i in range(11)]
    reading = read(*many)
    assert (len(reading.proposals), len(reading.refused)) == (8, 3)


def test_tokens_of_the_call_are_shared() -> None:
    text = json.dumps({"proposals": [decisions(d2=64), decisions(d2=0), decisions(d4=2)]})
    reading = read_reply(text, STATES, LANES, Origin("chat", cites=("e1",), tokens=100))
    assert [one.origin.tokens for one in reading.proposals] == [34, 33, 33]
    assert all(one.origin.cites == ("e1",) for one in reading.proposals)


def test_stop_is_heard_without_proposals_too() -> None:
    assert read(stop=True) == Reading(wants_stop=True)
    assert read_reply('{"stop": true}', STATES, LANES) == Reading(wants_stop=True)
    assert read(decisions(d2=64), stop=True).wants_stop


PLAIN = json.dumps({"proposals": [decisions(d2=64)], "stop": False})


@pytest.mark.parametrize(
    "text",
    [
        f"```json\n{PLAIN}\n```",
        f"Here is what I propose:\n{PLAIN}\nGood luck!",
        f'<think>maybe {{"proposals": []}} first</think>{PLAIN}',
        f"I wonder...</think>\n{PLAIN}",
        f"<think>\n{PLAIN}",
        f"{PLAIN}<think>is that all?</think>",
        f"With tiles {{8, 16}} in mind: {PLAIN}",
        PLAIN.replace('"values": [', '"values": [ ').replace("}], ", "},], "),
        PLAIN.replace('"', "'"),
        PLAIN[:-2],
        PLAIN.replace("}]}", "}]} // the best\n"),
        json.dumps([decisions(d2=64)]),
        json.dumps(decisions(d2=64)),
        json.dumps({"proposals": decisions(d2=64)}),
        PLAIN.replace("64", '"64"'),
        PLAIN.replace("64", "64.0"),
        PLAIN.replace('"decisions"', '"Decisions"'),
    ],
    ids=lambda text: text[:24],
)
def test_the_json_is_found_whatever_is_around_it(text: str) -> None:
    (found,) = read_reply(text, STATES, LANES).proposals
    assert found.origin.change == "#2 16 -> 64"


def test_a_cut_reply_gives_what_was_whole() -> None:
    plan = {"lane": "plan", "steps": ["vectorize C i", "unroll C k"]}
    text = json.dumps({"proposals": [decisions(d2=64), plan]})
    reading = read_reply(text[: text.index("unroll") + 8], STATES, LANES)
    assert [one.origin.change for one in reading.proposals] == ["#2 16 -> 64"]
    assert str(reading.refused[0].verdict) == "E_REPLY the reply was cut off here"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "E_REPLY empty reply"),
        ("<think>nothing comes to mind</think>", "E_REPLY no JSON object in the reply"),
        ("I would vectorize the loop.", "E_REPLY no JSON object in the reply"),
        ("[" * 100_000, "E_REPLY brackets nested deeper than 48"),
        ('{"answer": 42}', 'E_REPLY expected {"proposals": [...], "stop": ...}'),
        ("null", "E_REPLY no JSON object in the reply"),
    ],
    ids=["empty", "thought", "prose", "deep", "other", "null"],
)
def test_unreadable_replies_are_refused(text: str, reason: str) -> None:
    (refused,) = read_reply(text, STATES, LANES).refused
    assert str(refused.verdict) == reason


words = st.sampled_from(
    [
        '{"proposals":[', "]}", "{", "}", "[", "]", ",", ":", '"', "'", "\\", "```json", "</think>",
        "<think>", '"lane"', '"decisions"', '"plan"', '"rewrite"', '"values"', '"knob"', '"d3"',
        '"value"', '"from"', '"s1"', '"s2"', '"steps"', '"script"', "[1,2,32,8]", "1e999", "NaN",
        "-0", "9" * 400, "true", "null", "\x00", "\ud800", "é", " ", "\n", "split C i [2,-1]", "//",
    ]
)  # fmt: skip
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=8,
)
keys = ("lane", "from", "values", "steps", "script", "why")


@settings(max_examples=100, deadline=None)
@given(st.lists(words, max_size=30).map("".join) | st.text(max_size=200))
def test_no_text_makes_it_raise(text: str) -> None:
    read_reply(text, STATES, LANES)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.dictionaries(st.sampled_from(keys), values | st.sampled_from([*LANES, "s1", "s2"])),
        max_size=10,
    )
)
def test_no_object_makes_it_raise(proposals: list[Any]) -> None:
    read_reply(json.dumps({"proposals": proposals}), STATES, LANES)
