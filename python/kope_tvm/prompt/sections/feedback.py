# SPDX-License-Identifier: Apache-2.0
"""What the incumbent's machine code shows, and what a simulated machine counted of it."""

from __future__ import annotations

from collections.abc import Iterator

from kope_tvm.prompt.item import Item
from kope_tvm.prompt.view import View

ORDER = 80
TITLE = "Machine code of s1"
_CHARS = 280
_FIRST = 120.0
_A_CHAR = 0.9
"""Lines of counters are long, and worth more than another program that nobody has measured."""


def items(view: View) -> Iterator[Item]:
    """A line an item, as they come."""
    for number, line in enumerate(view.feedback):
        text = line[:_CHARS]
        yield Item(text, value=max(_FIRST / (1 + number), _A_CHAR * len(text)))
