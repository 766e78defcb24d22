# SPDX-License-Identifier: Apache-2.0
"""What the incumbent's machine code shows."""

from __future__ import annotations

from collections.abc import Iterator

from kope_tvm.prompt.item import Item
from kope_tvm.prompt.view import View

ORDER = 80
TITLE = "Machine code of s1"
_CHARS = 240


def items(view: View) -> Iterator[Item]:
    """A line an item, as they come."""
    for number, line in enumerate(view.feedback):
        yield Item(line[:_CHARS], value=120 / (1 + number))
