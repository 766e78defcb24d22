# SPDX-License-Identifier: Apache-2.0
"""A terminal shows a tree in few words, with nothing in it that a stranger could steer it by."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace

import graph_story as story
from kope_tvm.graph_view.cut import cut
from kope_tvm.graph_view.knobs import knob_names, knob_values
from kope_tvm.graph_view.terminal import draw
from kope_tvm.graph_view.tree import DecisionTree, decision_trees
from kope_tvm.memory import Experience, ExperienceGraph

TRACE = json.dumps(
    [
        [
            ["GetSBlock", [], ["matmul", "main"], ["b0"]],
            ["CacheWrite", ["b0", []], [0, "local"], ["b1"]],
            ["GetLoops", ["b0"], [], ["l2", "l3"]],
            ["SampleCategorical", [], [[1, 2, 4], [0.3, 0.3, 0.4]], ["v4"]],
            ["Split", ["l2", "None", "v4"], [True, False], ["l5", "l6"]],
            ["SamplePerfectTile", ["l6"], [2, 64], ["v7", "v8"]],
            ["Split", ["l6", "v7", "v8"], [True, False], ["l9", "l10"]],
            ["SampleCategorical", [], [[0, 16], [0.5, 0.5]], ["v11"]],
            ["Annotate", ["b0", "v11"], ["meta_schedule.unroll_explicit"], []],
            ["SampleComputeLocation", ["b1"], [], ["l12"]],
            ["ComputeAt", ["b1", "l12"], [1, -1], []],
        ],
        [[3, 2], [5, [8, 4]], [7, 1], [9, 5]],
    ]
)


def trees(experiences: Iterable[Experience]) -> tuple[DecisionTree, ...]:
    graph = ExperienceGraph()
    for experience in experiences:
        graph.add(experience)
    return decision_trees(graph)


HOST = [one for one in story.STORY if one.run_id == "run-1" and one != story.GELU]
PIPED = f"""\
softmax {story.SOFTMAX}: softmax 512x1024 float32 on llvm/znver5/avx512/512/2
untuned 8 ms; best 500 us, 16x in 3 steps; 7 tried, 1 failed
+-- first guess  2x  4 ms  rule:softmax_x86 decisions rules  *
    +-- fuse both passes  4x, 8x in all  1 ms ~7%  rule:softmax_x86 rewrite chat  *
    |   `-- split(j, [4, 8])  2x, 16x in all  500 us  rule:softmax_x86 plan rules  <- best
    |       `-- skip rows  10x, 160x in all  50 us, suspicious: 160x: prove it  rule:softmax_x86 \
decisions rules
    +-- tile 8 -> 16  0.25x, 0.5x in all  16 ms  rule:softmax_x86 decisions rules
    `-- drop the max {story.HOSTILE}  E_NUMERICS max_rel 3.1e-2 at [63,0..15]  \
rule:softmax_x86 rewrite rules
        `-- keep the max  4x in all  2 ms  repair 1 of E_NUMERICS  rule:softmax_x86 rewrite rules"""


def test_a_pipe_gets_whole_lines_in_ascii_without_colours() -> None:
    drawn = draw(trees(HOST))
    assert drawn == PIPED.replace("+-- first", "`-- first")


def test_a_terminal_gets_colours_and_lines_that_fit() -> None:
    drawn = draw(trees(HOST), columns=60)
    assert "\x1b[1;32m" in drawn
    assert "└── " in drawn
    assert "500 µs" in drawn
    plain = [line for line in drawn.splitlines() if "\x1b" not in line]
    assert all(len(line) <= 60 for line in plain)


def test_what_is_cut_is_counted_in_place() -> None:
    drawn = draw(cut(one, 3) for one in trees(HOST)).splitlines()
    assert drawn[1].endswith("7 tried, 1 failed")
    assert drawn[-1] == "    `-- ... 3 more: at most 4x in all, 1 failed"
    assert "    |       `-- ... 1 more: at most 160x in all" in drawn


def test_control_characters_and_markup_of_a_stranger_are_inert() -> None:
    evil = replace(story.GUESS, change="\x1b]0;title\x07[red]x[/red]\u202e\nnext \x9b2J")
    for columns in (None, 100):
        drawn = draw(trees([evil]), columns=columns)
        assert "]0;title [red]x[/red] next 2J" in drawn
        assert not {"\x07", "\u202e", "\x9b", "\x1b]"} & set(drawn)
        assert "\x1b]" not in drawn


def test_a_long_way_down_is_drawn() -> None:
    deep = [
        story.after(f"s{number - 1}" if number else "", f"s{number}", 1.0, order=number)
        for number in range(250)
    ]
    assert draw(trees(deep)).count("\n") == 251
    narrow = draw(trees(deep[:100]), columns=80)
    assert narrow.count("first guess") == 100


def test_knobs_are_named_by_what_they_turn() -> None:
    assert knob_names(TRACE) == {
        3: "tile of matmul loop 0",
        5: "tile of matmul loop 0.1",
        7: "unroll_explicit",
        9: "place of matmul's local copy",
    }
    assert knob_values(TRACE) == ("4", "[8, 4]", "16", "5")
    turned = replace(story.GUESS, proposal=TRACE, change="#3 2 -> 4, #99 1 -> 2")
    sampled = replace(turned, change="", state="other", run_secs=(5e-3,))
    drawn = draw(trees([turned, sampled]))
    assert "tile of matmul loop 0: 2 -> 4, #99 1 -> 2" in drawn
    assert "sampled 4 [8, 4] 16 5" in drawn


def test_a_damaged_proposal_is_named_by_its_number() -> None:
    for text in ("", "{", "[1]", "[[[1,2,3,4]],[]]", "null", '[[["Split", 3, 4, 5]], []]'):
        assert knob_names(text) == {}
        assert knob_values(text) == ()
        assert "#3 2 -> 4" in draw(trees([replace(story.GUESS, proposal=text, change="#3 2 -> 4")]))
