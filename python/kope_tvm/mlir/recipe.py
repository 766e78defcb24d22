# SPDX-License-Identifier: Apache-2.0
"""How the linalg ops of one function are tiled, as data: what a script says, and a model may."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

MOST_LEVELS = 3
MOST_DIMS = 8
MOST_OPS = 64

Sizes = tuple[int, ...]
"""A tile: one size a dimension of its op, in the order of its iterators; 0 leaves one whole."""


@dataclass(frozen=True)
class Recipe:
    """Tiles of the last op with its producers fused in, tiles within, vectors of what is left."""

    outer: tuple[Sizes, ...] = ()
    """Tiles of the last op, the outermost first; whatever feeds it comes along."""
    inner: tuple[Sizes, ...] = ()
    """One an op that was brought along, in program order; empty where it stays as it is."""
    fuse_elementwise: bool = False
    """Whether chains of elementwise ops become one op before anything is tiled."""

    def text(self) -> str:
        """As JSON."""
        told = {
            "outer": self.outer,
            "inner": self.inner,
            "fuse_elementwise": self.fuse_elementwise,
        }
        return json.dumps(told, separators=(",", ":"))


def recipe_from(text: str) -> Recipe:
    """What `Recipe.text` wrote; raises ValueError where it wrote nothing like this."""
    try:
        given = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"not a recipe: {error}") from error
    if not isinstance(given, Mapping):
        raise ValueError(f"not a recipe: {text[:80]!r}")
    unknown = set(given) - {"outer", "inner", "fuse_elementwise"}
    if unknown:
        raise ValueError(f"a recipe has no {', '.join(sorted(unknown))}")
    outer = _tiles(given.get("outer", ()), "outer", MOST_LEVELS)
    inner = _tiles(given.get("inner", ()), "inner", MOST_OPS)
    return Recipe(outer, inner, bool(given.get("fuse_elementwise", False)))


def _tiles(given: object, name: str, most: int) -> tuple[Sizes, ...]:
    if not isinstance(given, Sequence) or isinstance(given, str) or len(given) > most:
        raise ValueError(f"{name} is {given!r}; expected at most {most} lists of tile sizes")
    return tuple(_sizes(each, name) for each in given)


def _sizes(given: object, name: str) -> Sizes:
    if not isinstance(given, Sequence) or isinstance(given, str) or len(given) > MOST_DIMS:
        raise ValueError(f"{name} has {given!r}; expected at most {MOST_DIMS} tile sizes")
    if not all(isinstance(each, int) and 0 <= each < 1 << 31 for each in given):
        raise ValueError(f"{name} has {given!r}; expected whole numbers from 0 up")
    return tuple(int(each) for each in given)
