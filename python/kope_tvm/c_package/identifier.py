# SPDX-License-Identifier: Apache-2.0
"""Names of a model as names that C accepts."""

from __future__ import annotations

import re
from collections.abc import Iterable

_KEYWORDS = """
auto break case char const continue default do double else enum extern float for goto if inline int
long register restrict return short signed sizeof static struct switch typedef union unsigned void
volatile while asm bool true false class new delete this template private public protected namespace
operator typename using virtual try catch throw and or not xor friend export main
"""
"""Keywords of C and of C++, which reads the header too."""
_TAKEN = frozenset(_KEYWORDS.split())


def identifier(name: str) -> str:
    """The nearest identifier; never reserved."""
    plain = re.sub(r"_+", "_", re.sub(r"[^0-9A-Za-z]", "_", name)).strip("_") or "x"
    is_taken = plain[0].isdigit() or plain in _TAKEN or plain.startswith("kope_")
    return f"x_{plain}" if is_taken else plain


def identifiers(names: Iterable[str]) -> tuple[str, ...]:
    """An identifier a name, all different."""
    found: list[str] = []
    for name in names:
        plain = identifier(name)
        free = (f"{plain}_{i}" for i in range(2, len(found) + 3))
        found.append(plain if plain not in found else next(n for n in free if n not in found))
    return tuple(found)
