# SPDX-License-Identifier: Apache-2.0
"""The untuned function: loops with extents, blocks with their statements, and its time."""

from __future__ import annotations

from collections.abc import Iterator

from kope_tvm.prompt.amounts import shown_bytes, shown_count, shown_secs
from kope_tvm.prompt.item import Item, required
from kope_tvm.prompt.view import View

ORDER = 20
TITLE = "Untuned function: loop:extent outermost first, block: statement; _ is the element written"
_MAX_CHARS = 1000


def items(view: View) -> Iterator[Item]:
    """The busiest nests; what is left out is counted."""
    tree = view.notes.tree
    yield required("\n".join([tree.buffers[:_MAX_CHARS], *tree.shown(_MAX_CHARS), _size(view)]))


def _size(view: View) -> str:
    features, context = view.context.task.features, view.context
    parts = [
        f"{features.op_class}, {shown_count(features.flops)} operations,"
        f" {shown_bytes(features.bytes_moved)} of parameters"
    ]
    if context.baseline_secs:
        parts.append(f"untuned {shown_secs(context.baseline_secs)}")
    if context.roof_secs:
        parts.append(f"measured roof {shown_secs(context.roof_secs)}")
    return "; ".join(parts)
