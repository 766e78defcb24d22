# SPDX-License-Identifier: Apache-2.0
"""Packs the pieces of a prompt under a hard token limit, by value per token."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kope_tvm.prompt.item import Item

Count = Callable[[str], int]
"""Tokens of a text, never under."""


@dataclass(frozen=True)
class Part:
    """One section's pieces, in the order in which they are shown."""

    section: str
    title: str
    items: tuple[Item, ...]


@dataclass(frozen=True)
class Dropped:
    """What a section had to do without."""

    section: str
    tokens: int


@dataclass(frozen=True)
class Packed:
    """The text, and what did not fit."""

    text: str
    dropped: tuple[Dropped, ...]


def pack(parts: Sequence[Part], limit: int, count: Count) -> Packed:
    """The text of `parts` in their order, never of more than `limit` tokens.

    Required pieces come first and are cut line by line where they are too much on their own; the
    others by value per token.
    """
    chosen, left = _required(parts, limit, count)
    dropped = []
    for number, item in _ranked(parts, count):
        cost = _cost(parts[number], item, chosen, number, count)
        if cost <= left:
            chosen.add((number, _index(parts[number], item)))
            left -= cost
        else:
            dropped.append(Dropped(parts[number].section, count(item.text)))
    return _within(parts, chosen, limit, count, dropped)


_Chosen = set[tuple[int, int]]
"""Numbers of a part and of an item in it."""


def _required(parts: Sequence[Part], limit: int, count: Count) -> tuple[_Chosen, int]:
    chosen: _Chosen = set()
    left = limit
    for number, part in enumerate(parts):
        for index, item in enumerate(part.items):
            if item.required:
                left -= _cost(part, item, chosen, number, count)
                chosen.add((number, index))
    return chosen, left


def _ranked(parts: Sequence[Part], count: Count) -> list[tuple[int, Item]]:
    spare = [(number, item) for number, part in enumerate(parts) for item in part.items]
    spare = [pair for pair in spare if not pair[1].required]
    return sorted(spare, key=lambda pair: -pair[1].value / max(count(pair[1].text), 1))


def _cost(part: Part, item: Item, chosen: _Chosen, number: int, count: Count) -> int:
    """Of the item with its line break, and of the title where it is the part's first."""
    is_first = all(one != number for one, _ in chosen)
    return count(f"{item.text}\n") + (count(_head(part)) if is_first else 0)


def _head(part: Part) -> str:
    return f"## {part.title}\n" if part.title else ""


def _index(part: Part, item: Item) -> int:
    return next(index for index, one in enumerate(part.items) if one is item)


def _within(
    parts: Sequence[Part], chosen: _Chosen, limit: int, count: Count, dropped: list[Dropped]
) -> Packed:
    """The text; counts of pieces may add up to less than the whole's, so the whole is counted."""
    spare = sorted(
        (pair for pair in chosen if not parts[pair[0]].items[pair[1]].required),
        key=lambda pair: parts[pair[0]].items[pair[1]].value,
    )
    text = _joined(parts, chosen)
    while spare and count(text) > limit:
        number, index = spare.pop(0)
        chosen.remove((number, index))
        dropped.append(Dropped(parts[number].section, count(parts[number].items[index].text)))
        text = _joined(parts, chosen)
    kept = cut_to(text, limit, count)
    if kept != text:
        dropped.append(Dropped("required", count(text) - count(kept)))
    return Packed(kept, tuple(dropped))


def cut_to(text: str, limit: int, count: Count) -> str:
    """The first lines of a text that fit; of a first line that does not, what fits of it."""
    if count(text) <= limit:
        return text
    lines = text.split("\n")
    fitting = _longest(len(lines), lambda n: count("\n".join(lines[:n])) <= limit)
    if fitting:
        return "\n".join(lines[:fitting])
    return text[: _longest(len(lines[0]), lambda n: count(text[:n]) <= limit)]


def _longest(most: int, fits: Callable[[int], bool]) -> int:
    """The largest number up to `most` that fits, where all smaller ones do; 0 if none does."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def _joined(parts: Sequence[Part], chosen: _Chosen) -> str:
    texts = []
    for number, part in enumerate(parts):
        shown = [item.text for i, item in enumerate(part.items) if (number, i) in chosen]
        if shown:
            texts.append(_head(part) + "\n".join(shown))
    return "\n".join(texts)
