# SPDX-License-Identifier: Apache-2.0
"""What the page knows: trees as plain data, with long texts kept once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kope_tvm.graph_view.layout import Layout, lay_out
from kope_tvm.graph_view.tree import Branch, DecisionTree
from kope_tvm.graph_view.words import (
    spell_change,
    spell_hidden,
    spell_outcome,
    spell_ratio,
    spell_ratios,
    spell_summary,
    spell_title,
)
from kope_tvm.progress import spell_secs

_PROPOSAL_CHARS = 4_000
"""Of a trace or a script: the page is for reading, JSONL for replaying."""
_REASON_CHARS = 2_000


@dataclass(frozen=True)
class BookBranch:
    """One decision; `proposal` and `toolchain` are places in the book's texts."""

    key: str
    under: str
    column: int
    row: int
    is_far: bool
    change: str
    outcome: str
    ratio_words: str
    parent_words: str
    speedup_words: str
    secs_words: str
    untuned_words: str
    noise_words: str
    speedup: float | None
    is_winning: bool
    mends: tuple[str, ...]
    repair_turn: int
    signature: str
    source: str
    relative: str
    lane: str
    space: str
    proposer: str
    code: str
    reason: str
    suspicious: bool
    tokens: int
    seed: int
    run_id: str
    round_no: int
    order: int
    at: float
    state: str
    parent: str
    toolchain: int
    proposal: int


_SAME = (
    *("lane", "space", "proposer", "state", "parent", "code", "suspicious", "tokens"),
    *("run_id", "round_no", "order", "at", "seed"),
    *("repair_turn", "signature", "source", "relative"),
)
"""Fields that are the experience's own, by its names."""


@dataclass(frozen=True)
class BookHidden:
    """A place where decisions are left out."""

    under: str
    words: str
    column: int
    row: int
    is_far: bool


@dataclass(frozen=True)
class BookTree:
    """One task on one machine."""

    id: str
    task_key: str
    task: str
    what: str
    machine: str
    simulated: bool
    title: str
    summary: str
    untuned_words: str
    best: str
    """Key of the fastest; empty for none."""
    fastest: float
    """Its speed-up; 1 where unknown."""
    num_hidden: int
    num_rows: int
    branches: tuple[BookBranch, ...]
    hidden: tuple[BookHidden, ...]


@dataclass(frozen=True)
class Book:
    """Everything on the page."""

    trees: tuple[BookTree, ...]
    texts: tuple[str, ...]


class _Texts:
    """Texts by their numbers, each once."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def number(self, text: str, length: int) -> int:
        more = len(text) - length
        kept = f"{text[:length]}\n... and {more} characters more" if more > 0 else text
        return self.numbers.setdefault(kept, len(self.numbers))


def write_book(trees: Iterable[DecisionTree]) -> Book:
    """The trees in their order."""
    texts = _Texts()
    written = tuple(_tree(str(number), tree, texts) for number, tree in enumerate(trees))
    return Book(written, tuple(texts.numbers))


def _tree(name: str, tree: DecisionTree, texts: _Texts) -> BookTree:
    layout, best = lay_out(tree), tree.best
    hidden = (
        BookHidden(one.under, spell_hidden(one), place.column, place.row, place.is_far)
        for one in tree.hidden
        for place in (layout.hidden[one.under],)
    )
    return BookTree(
        id=name,
        task_key=tree.task_key,
        task=tree.task_name,
        what=tree.what,
        machine=tree.machine_key,
        simulated=tree.simulated,
        title=spell_title(tree),
        summary=spell_summary(tree),
        untuned_words=spell_secs(tree.baseline_secs),
        best=best.key if best else "",
        fastest=(best.speedup if best else None) or 1.0,
        num_hidden=tree.num_hidden,
        num_rows=layout.num_rows,
        branches=tuple(_branch(one, layout, texts) for one in tree.branches),
        hidden=tuple(hidden),
    )


def _branch(one: Branch, layout: Layout, texts: _Texts) -> BookBranch:
    experience, place = one.experience, layout.places[one.key]
    return BookBranch(
        **{name: getattr(experience, name) for name in _SAME},
        key=one.key,
        under=one.under,
        column=place.column,
        row=place.row,
        is_far=place.is_far,
        change=spell_change(one),
        outcome=spell_outcome(one)[:_REASON_CHARS],
        ratio_words=spell_ratios(one),
        parent_words=spell_ratio(one.ratio) if one.under else "",
        speedup_words=spell_ratio(one.speedup),
        secs_words=spell_secs(one.secs) if one.secs else "",
        untuned_words=spell_secs(experience.baseline_secs) if experience.baseline_secs else "",
        noise_words=f"{100 * experience.noise:.2g}%" if one.secs else "",
        speedup=one.speedup,
        is_winning=one.is_winning,
        mends=one.mends,
        reason=experience.reason[:_REASON_CHARS],
        toolchain=texts.number(experience.toolchain, _REASON_CHARS),
        proposal=texts.number(experience.proposal, _PROPOSAL_CHARS),
    )
