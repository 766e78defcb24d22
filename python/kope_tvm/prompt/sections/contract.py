# SPDX-License-Identifier: Apache-2.0
"""What is asked and how to answer: an example for each open lane, a short one for the third."""

from __future__ import annotations

from collections.abc import Iterator

from kope_tvm.prompt.item import Item, required
from kope_tvm.prompt.texts import text
from kope_tvm.prompt.view import View

ORDER = 0
TITLE = ""


def items(view: View) -> Iterator[Item]:
    """Static texts: the same in every call with these lanes."""
    told = [text(f"lane_{lane}") for lane in view.main_lanes]
    rest = [lane for lane in view.lanes if lane not in view.main_lanes]
    short = [text(f"lane_{lane}_short") or text(f"lane_{lane}") for lane in rest]
    yield required("\n".join([text("contract"), *told, *short]))
