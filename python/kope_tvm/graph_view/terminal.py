# SPDX-License-Identifier: Apache-2.0
"""Decision trees drawn with rich, for a terminal or, in ASCII and without colours, for a pipe."""

from __future__ import annotations

from collections.abc import Iterable
from io import BytesIO, TextIOWrapper

from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from kope_tvm.graph_view.tree import Branch, DecisionTree, Hidden
from kope_tvm.graph_view.words import (
    shortened,
    spell_change,
    spell_hidden,
    spell_origin,
    spell_outcome,
    spell_ratios,
    spell_summary,
    spell_title,
)

_WHOLE_LINES = 10_000
"""Columns of a pipe: nothing is cut or wrapped there."""
_LINE_COLUMNS = 60
"""Room for a line however deep it is; beyond the terminal's width the terminal wraps it."""
_GUIDE_COLUMNS = 4
_CHANGE_CHARS = 100
_REASON_CHARS = 90


def draw(trees: Iterable[DecisionTree], *, columns: int | None = None) -> str:
    """The trees as text, with colours where it is for a terminal of so many columns."""
    buffer = BytesIO()
    file = TextIOWrapper(buffer, "utf-8" if columns else "ascii", errors="replace")
    console = Console(
        file=file,
        force_terminal=columns is not None,
        width=_WHOLE_LINES,
        highlight=False,
        markup=False,
        emoji=False,
    )
    for number, tree in enumerate(trees):
        if number:
            console.print()
        console.print(_ascii(Text(spell_title(tree), "bold"), columns))
        deepest = _GUIDE_COLUMNS * _depth(tree) + _LINE_COLUMNS
        console.print(_rich_tree(tree, columns), width=max(columns or _WHOLE_LINES, deepest))
    file.flush()
    return buffer.getvalue().decode().rstrip("\n")


def _depth(tree: DecisionTree) -> int:
    depths = {"": 0}
    for one in tree.branches:
        depths[one.key] = depths[one.under] + 1
    return max(depths.values())


def _rich_tree(tree: DecisionTree, columns: int | None) -> Tree:
    root = Tree(_ascii(Text(spell_summary(tree)), columns), guide_style="dim")
    places = {"": root}
    for one in tree.branches:
        places[one.key] = places[one.under].add(_ascii(_label(one, tree), columns))
    for hidden in tree.hidden:
        places[hidden.under].add(_ascii(_left_out(hidden), columns))
    return root


def _label(branch: Branch, tree: DecisionTree) -> Text:
    experience = branch.experience
    text = Text(overflow="fold")
    text.append(shortened(spell_change(branch), _CHANGE_CHARS), _style(branch))
    if ratios := spell_ratios(branch):
        text.append(
            f"  {ratios}", "green" if (branch.ratio or branch.speedup or 0.0) > 1.0 else "yellow"
        )
    outcome = shortened(spell_outcome(branch), _REASON_CHARS)
    text.append(f"  {outcome}", "red" if experience.code or experience.suspicious else "")
    if branch.mends or experience.repairs:
        text.append(f"  repair {experience.repair_turn}{_of(branch, tree)}", "magenta")
    if experience.source:
        text.append("  carried over", "cyan")
    text.append(f"  {spell_origin(branch)}", "dim")
    if tree.best is not None and branch.key == tree.best.key:
        text.append("  <- best", "bold green")
    elif branch.is_winning:
        text.append("  *", "bold green")
    return text


def _of(branch: Branch, tree: DecisionTree) -> str:
    codes = {one.experience.code for one in tree.branches if one.key in branch.mends}
    return f" of {', '.join(sorted(codes))}" if codes else ""


def _style(branch: Branch) -> str:
    if branch.is_winning:
        return "bold green"
    return "red" if branch.experience.code else ""


def _left_out(hidden: Hidden) -> Text:
    return Text(f"... {spell_hidden(hidden)}", "dim italic")


def _ascii(text: Text, columns: int | None) -> Text:
    """For a pipe: micro and plus-minus in letters, what has none as a question mark."""
    if columns is None:
        text.plain = text.plain.replace("µ", "u").replace("±", "~")
    return text
