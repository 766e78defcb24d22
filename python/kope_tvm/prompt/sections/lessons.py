# SPDX-License-Identifier: Apache-2.0
"""Rules distilled from many runs; they stand before the single changes that they follow from."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kope_tvm.prompt.item import Item
from kope_tvm.prompt.view import View

ORDER = 45
TITLE = "Lessons of earlier runs"
_CHARS = 240


def items(view: View) -> Iterator[Item]:
    """Best first, as they come."""
    for number, lesson in enumerate(view.lessons):
        # A difference of settings calls a knob #9 where a prompt says d9.
        text = re.sub(r"#(?=\d+ )", "d", lesson)
        yield Item(text[:_CHARS], value=80 / (1 + number))
