# SPDX-License-Identifier: Apache-2.0
"""What is asked and how to answer, with one example for each open lane."""

from __future__ import annotations

from collections.abc import Iterator

from kope_tvm.prompt.item import Item, required
from kope_tvm.prompt.texts import text
from kope_tvm.prompt.view import View

ORDER = 0
TITLE = ""


def items(view: View) -> Iterator[Item]:
    """Static texts: the same in every call with these lanes."""
    yield required("\n".join([text("contract"), *(text(f"lane_{lane}") for lane in view.lanes)]))
