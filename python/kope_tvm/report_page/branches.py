# SPDX-License-Identifier: Apache-2.0
"""A decision tree as nested entries, each in words."""

from __future__ import annotations

from dataclasses import dataclass

from kope_tvm.graph_view.cut import cut
from kope_tvm.graph_view.tree import Branch, DecisionTree
from kope_tvm.graph_view.words import (
    spell_change,
    spell_hidden,
    spell_origin,
    spell_outcome,
    spell_ratios,
)

_MOST_BRANCHES = 60
"""Of one tree on a page; what is left out is counted where it was."""


@dataclass(frozen=True)
class Entry:
    """A decision and what was tried from it."""

    change: str
    ratios: str
    outcome: str
    origin: str
    is_winning: bool
    is_best: bool
    is_failed: bool
    is_repair: bool
    left_out: str
    """What is not shown below it; empty where that is nothing."""
    below: tuple[Entry, ...]


def entries(tree: DecisionTree) -> tuple[tuple[Entry, ...], str]:
    """The entries below the untuned function, and what is left out there."""
    shown = cut(tree, _MOST_BRANCHES)
    left_out = {hidden.under: spell_hidden(hidden) for hidden in shown.hidden}
    best = tree.best.key if tree.best else ""
    below: dict[str, list[Entry]] = {}
    for branch in reversed(shown.branches):  # Each comes after the one that it is under.
        inner = tuple(reversed(below.get(branch.key, ())))
        entry = _entry(branch, branch.key == best, left_out.get(branch.key, ""), inner)
        below.setdefault(branch.under, []).append(entry)
    return tuple(reversed(below.get("", ()))), left_out.get("", "")


def _entry(branch: Branch, is_best: bool, left_out: str, below: tuple[Entry, ...]) -> Entry:
    experience = branch.experience
    return Entry(
        change=spell_change(branch),
        ratios=spell_ratios(branch),
        outcome=spell_outcome(branch),
        origin=spell_origin(branch),
        is_winning=branch.is_winning,
        is_best=is_best,
        is_failed=bool(experience.code or experience.suspicious),
        is_repair=bool(branch.mends or experience.repairs),
        left_out=left_out,
        below=below,
    )
