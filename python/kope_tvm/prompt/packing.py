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
    chosen: _Chosen = set()
    left = limit
    dropped = []
    for piece in _ranked(parts, count):
        is_first = all(number != piece.number for number, _ in chosen)
        cost = piece.tokens + (count(_head(parts[piece.number])) if is_first else 0)
        if cost <= left or piece.item.required:
            chosen.add((piece.number, piece.index))
            left -= cost
        else:
            dropped.append(Dropped(parts[piece.number].section, piece.tokens))
    return _within(parts, chosen, limit, count, dropped)


_Chosen = set[tuple[int, int]]
"""Numbers of a part and of an item in it."""


@dataclass(frozen=True)
class _Piece:
    number: int
    """Of its part."""
    index: int
    """In its part."""
    item: Item
    tokens: int
    """With its line break."""


def _ranked(parts: Sequence[Part], count: Count) -> list[_Piece]:
    """What is required in its order, then the others by value per token."""
    pieces = [
        _Piece(number, index, item, count(f"{item.text}\n"))
        for number, part in enumerate(parts)
        for index, item in enumerate(part.items)
    ]
    required = [piece for piece in pieces if piece.item.required]
    spare = [piece for piece in pieces if not piece.item.required]
    return required + sorted(spare, key=lambda one: -one.item.value / max(one.tokens, 1))


def _head(part: Part) -> str:
    return f"## {part.title}\n" if part.title else ""


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
