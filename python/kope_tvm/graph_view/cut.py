# SPDX-License-Identifier: Apache-2.0
"""Large trees cut by value: what won, one failure of each kind, then the fastest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from kope_tvm.graph_view.tree import Branch, DecisionTree, Hidden

_FAILURES_SHARE = 4
"""One in so many places is for the first failure of each kind."""


def cut(tree: DecisionTree, limit: int) -> DecisionTree:
    """The tree with at most `limit` decisions, and what is hidden below each of them."""
    if len(tree.branches) <= limit:
        return tree
    by_key = {one.key: one for one in tree.branches}
    kept: set[str] = set()
    for one in _most_telling_first(tree, limit):
        missing = [key for key in _way(one.key, by_key) if key not in kept]
        if len(kept) + len(missing) <= limit:
            kept.update(missing)
    shown = tuple(one for one in tree.branches if one.key in kept)
    return replace(tree, branches=shown, hidden=_hidden(tree, kept, by_key))


def fair_share(sizes: Iterable[int], limit: int, total: int) -> int:
    """The most of each tree, up to `limit`, with which they are `total` at most; 1 at least."""
    order = sorted(sizes)
    left = total
    for number, size in enumerate(order):
        share = left // (len(order) - number)
        if min(size, limit) > share:
            return max(share, 1)
        left -= min(size, limit)
    return limit


def _most_telling_first(tree: DecisionTree, limit: int) -> Iterator[Branch]:
    yield from (one for one in tree.branches if one.is_winning)
    kinds: dict[tuple[str, bool], Branch] = {}
    mended = {key for one in tree.branches for key in one.mends}
    for one in tree.branches:
        if one.experience.code:
            kinds.setdefault((one.experience.code, one.key in mended), one)
    yield from [*kinds.values()][: limit // _FAILURES_SHARE]
    measured = [one for one in tree.branches if one.secs is not None]
    yield from sorted(measured, key=lambda one: one.secs or 0.0)
    yield from sorted(tree.branches, key=lambda one: -one.experience.at)


def _way(key: str, by_key: dict[str, Branch]) -> Iterator[str]:
    while key:
        yield key
        key = by_key[key].under


def _hidden(tree: DecisionTree, kept: set[str], by_key: dict[str, Branch]) -> tuple[Hidden, ...]:
    """What is left out, counted at the nearest decision above it that is shown."""
    left_out: dict[str, list[Branch]] = {}
    nearest: dict[str, str] = {"": ""}
    for one in tree.branches:  # Each after the one it is under.
        if one.key in kept:
            nearest[one.key] = one.key
        else:
            nearest[one.key] = nearest[one.under]
            left_out.setdefault(nearest[one.key], []).append(one)
    return tuple(_count(under, branches) for under, branches in left_out.items())


def _count(under: str, branches: list[Branch]) -> Hidden:
    speedups = [one.speedup for one in branches if one.speedup]
    num_failed = sum(1 for one in branches if one.experience.code)
    return Hidden(under, len(branches), num_failed, max(speedups, default=None))
