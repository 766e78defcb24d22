# SPDX-License-Identifier: Apache-2.0
"""Rules distilled from many runs."""

from __future__ import annotations

from collections.abc import Iterator

from kope_tvm.prompt.item import Item
from kope_tvm.prompt.view import View

ORDER = 70
TITLE = "Lessons of earlier runs"
_CHARS = 240


def items(view: View) -> Iterator[Item]:
    """Best first, as they come."""
    for number, lesson in enumerate(view.lessons):
        yield Item(lesson[:_CHARS], value=80 / (1 + number))
