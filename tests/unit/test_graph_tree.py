# SPDX-License-Identifier: Apache-2.0
"""A decision tree hangs each decision below what it changed, and loses none when it is cut."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import graph_story as story
from kope_tvm.graph_view.cut import cut, fair_share
from kope_tvm.graph_view.layout import lay_out
from kope_tvm.graph_view.tree import Branch, DecisionTree, decision_trees
from kope_tvm.memory import Experience, ExperienceGraph, experience_key
from kope_tvm.memory.graph import Link


def graph(experiences: Iterable[Experience]) -> ExperienceGraph:
    built = ExperienceGraph()
    for experience in experiences:
        built.add(experience)
    return built


def tree_of(*experiences: Experience) -> DecisionTree:
    (tree,) = decision_trees(graph(experiences))
    return tree


def softmax() -> DecisionTree:
    return tree_of(*(one for one in story.STORY if one.run_id == "run-1" and one != story.GELU))


def named(tree: DecisionTree, state: str) -> Branch:
    (found,) = (one for one in tree.branches if one.experience.state == state)
    return found


def parents(tree: DecisionTree) -> dict[str, str]:
    states = {one.key: one.experience.state for one in tree.branches} | {"": ""}
    return {one.experience.state: states[one.under] for one in tree.branches}


def test_each_decision_is_below_the_state_it_started_from() -> None:
    assert parents(softmax()) == {
        "guess": "",
        "fused": "guess",
        "split": "fused",
        "cheat": "split",
        "dropped": "guess",
        "kept": "dropped",
        "slow": "guess",
    }


def test_ratios_are_to_the_parent_and_to_the_untuned_function() -> None:
    tree = softmax()
    found = {one.experience.state: (one.ratio, one.speedup) for one in tree.branches}
    assert found["guess"] == pytest.approx((2.0, 2.0))
    assert found["fused"] == pytest.approx((4.0, 8.0))
    assert found["split"] == pytest.approx((2.0, 16.0))
    assert found["slow"] == pytest.approx((0.25, 0.5))
    assert found["dropped"] == (None, None)
    assert found["kept"] == (None, 4.0)
    assert tree.baseline_secs == 8e-3


def test_runs_on_a_slower_day_are_compared_by_speed_up() -> None:
    again = replace(story.FUSED, run_id="run-9", run_secs=(2e-3,), baseline_secs=16e-3)
    assert named(tree_of(story.GUESS, again), "fused").ratio == pytest.approx(4.0)


def test_the_winning_way_leads_to_the_fastest_honest_one() -> None:
    tree = softmax()
    winning = [one.experience.state for one in tree.branches if one.is_winning]
    assert winning == ["guess", "fused", "split"]
    assert tree.best == named(tree, "split")
    assert tree.num_failed == 1
    assert tree_of(story.DROPPED).best is None


def test_a_repair_names_the_failure_that_it_mends() -> None:
    assert named(softmax(), "kept").mends == (experience_key(story.DROPPED),)
    links = set(graph(story.STORY).links())
    assert links == {
        Link("repairs", experience_key(story.DROPPED), experience_key(story.KEPT)),
        Link("transfers", experience_key(story.SPLIT), experience_key(story.CARRIED)),
    }


def test_every_machine_and_simulator_has_a_tree_of_its_own() -> None:
    simulated = replace(story.GUESS, simulated=True)
    trees = decision_trees(graph((*story.STORY, simulated)))
    found = {(one.task_name, one.machine_key, one.simulated): len(one.branches) for one in trees}
    host = story.GUESS.machine_key
    assert found == {
        ("gelu", host, False): 1,
        ("softmax", story.BOARD, False): 1,
        ("softmax", host, False): 7,
        ("softmax", host, True): 1,
    }
    (board,) = decision_trees(graph(story.STORY), machine_key=story.BOARD)
    assert board.branches[0].speedup == pytest.approx(10.0)


def test_a_state_reached_twice_is_entered_by_the_faster_decision() -> None:
    again = replace(story.GUESS, run_secs=(3e-3,), at=story.GUESS.at + 1)
    tree = tree_of(story.GUESS, again, story.FUSED)
    assert named(tree, "fused").under == experience_key(again)
    assert len(tree.branches) == 3


def test_what_starts_from_an_unknown_state_or_from_itself_is_kept() -> None:
    lost = story.after("never seen", "lost", 3.0)
    itself = story.after("itself", "itself", 2.0)
    tree = tree_of(story.GUESS, lost, itself)
    assert parents(tree) == {"guess": "", "lost": "", "itself": ""}


edges = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 5)), min_size=1, max_size=40
)


@given(edges)
def test_any_graph_becomes_a_tree_that_holds_each_decision_once(
    made: list[tuple[int, int, int]],
) -> None:
    found = [
        story.after(f"s{start}" if start else "", f"s{end}", millis or 1.0, order=number)
        for number, (start, end, millis) in enumerate(made)
    ]
    tree = tree_of(*found)
    assert {one.key for one in tree.branches} == {experience_key(one) for one in found}
    assert len(tree.branches) == len(found)
    assert_follows(tree)
    for limit in (1, 3, 10):
        small = cut(tree, limit)
        assert len(small.branches) <= limit
        assert len(small.branches) + small.num_hidden == len(found)
        assert_follows(small)
        assert_apart(small)


def assert_follows(tree: DecisionTree) -> None:
    seen = {""}
    for one in tree.branches:
        assert one.under in seen
        seen.add(one.key)
    assert {one.under for one in tree.hidden} <= seen


def assert_apart(tree: DecisionTree) -> None:
    layout = lay_out(tree)
    cells = [(place.column, place.row) for place in layout.places.values()]
    cells += [(place.column, place.row) for place in layout.hidden.values()]
    assert len(cells) == len(set(cells)) == len(tree.branches) + len(tree.hidden) + 1
    assert max(row for _, row in cells) < layout.num_rows


def test_a_cut_keeps_the_winning_way_a_failure_and_then_the_fastest() -> None:
    small = cut(softmax(), 5)
    kept = {one.experience.state for one in small.branches}
    assert kept == {"guess", "fused", "split", "dropped", "cheat"}
    (below_dropped, below_guess) = sorted(small.hidden, key=lambda one: one.best_speedup or 0)[::-1]
    assert (below_dropped.num_decisions, below_dropped.best_speedup) == (1, 4.0)
    assert (below_guess.num_decisions, below_guess.best_speedup) == (1, 0.5)
    assert cut(softmax(), 7) == softmax()


def test_a_share_is_fair_to_small_trees() -> None:
    assert fair_share([10, 20], limit=2000, total=100) == 2000
    assert fair_share([10, 500, 500], limit=2000, total=110) == 50
    assert fair_share([3000, 3000], limit=2000, total=4000) == 2000
    assert fair_share([5, 5, 5], limit=9, total=2) == 1


def test_many_from_one_state_stand_in_a_block_not_in_a_line() -> None:
    tree = tree_of(*(story.after("", f"s{n}", 1.0 + n, order=n) for n in range(900)))
    places = lay_out(tree).places.values()
    assert max(place.row for place in places) < 100
    assert max(place.column for place in places) <= 12
    assert_apart(tree)


def test_the_winning_way_is_the_first_row() -> None:
    tree = tree_of(*story.crowd(600))
    layout = lay_out(tree)
    winning = [one.key for one in tree.branches if one.is_winning]
    assert [layout.places[key].row for key in winning] == [0] * len(winning)
    assert [layout.places[key].column for key in winning] == list(range(1, len(winning) + 1))
    assert_apart(tree)
