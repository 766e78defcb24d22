# SPDX-License-Identifier: Apache-2.0
"""Packing by numbers that can be worked out by hand: a token here is a word or a line break."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from kope_tvm.chat.tokens import bound
from kope_tvm.prompt.item import Item, required
from kope_tvm.prompt.packing import Dropped, Part, cut_to, pack


def words(text: str) -> int:
    return len(re.findall(r"\w+|\n", text))


def part(name: str, *items: Item) -> Part:
    return Part(name, "", items)


def test_everything_that_fits_is_shown_in_its_order() -> None:
    parts = [part("a", Item("one two")), part("b", Item("three"), required("four"))]
    packed = pack(parts, 8, words)
    assert packed.text == "one two\nthree\nfour"
    assert packed.dropped == ()


def test_the_dearer_of_two_gives_way() -> None:
    # 7 tokens: three required, then 10 for two beats 30 for eight.
    parts = [
        part("long", Item("a b c d e f g", value=30)),
        part("must", required("x y")),
        part("short", Item("z", value=10)),
    ]
    packed = pack(parts, 7, words)
    assert packed.text == "x y\nz"
    assert packed.dropped == (Dropped("long", 8),)


def test_what_is_worth_most_per_token_comes_first() -> None:
    parts = [part("a", Item("a a a", value=8)), part("b", Item("b", value=6))]
    assert pack(parts, 3, words).text == "b"


def test_a_title_is_paid_once_and_only_where_something_is_shown() -> None:
    parts = [
        Part("a", "First title", (Item("a"), Item("b"))),
        Part("b", "Second long title that fits nowhere", (Item("c"),)),
    ]
    packed = pack(parts, 8, words)
    assert packed.text == "## First title\na\nb"
    assert packed.dropped == (Dropped("b", 2),)


def test_required_lines_that_do_not_fit_are_cut_from_the_end() -> None:
    packed = pack([part("a", required("one two\nthree four")), part("b", Item("five"))], 3, words)
    assert packed.text == "one two"
    assert [one.section for one in packed.dropped] == ["b", "required"]


def test_a_single_line_is_cut_within() -> None:
    assert cut_to("one two three", 2, words) == "one two "
    assert cut_to("one", 0, words) == ""


texts = st.text(max_size=60)
items = st.builds(Item, texts, st.floats(0, 1000), st.booleans())
many_parts = st.lists(
    st.builds(Part, st.just("s"), texts, st.lists(items, max_size=4).map(tuple)), max_size=5
)


@given(many_parts, st.integers(0, 200))
def test_no_prompt_is_over_its_limit(parts: list[Part], limit: int) -> None:
    assert bound(pack(parts, limit, bound).text) <= limit
