# SPDX-License-Identifier: Apache-2.0
"""What is left to spend, and how many proposals are wanted of which kind."""

from __future__ import annotations

from collections.abc import Iterator

from kope_tvm.prompt.item import Item, required
from kope_tvm.prompt.view import View

ORDER = 100
TITLE = "Now"
MOST_PROPOSALS = 8


def items(view: View) -> Iterator[Item]:
    """The last lines of the prompt."""
    context = view.context
    left = [f"{context.trials_left} trials"]
    if view.tokens_left is not None:
        left.append(f"{view.tokens_left} tokens")
    if view.calls_left is not None:
        left.append(f"{view.calls_left} calls")
    wanted = max(1, min(context.num_wanted, MOST_PROPOSALS))
    lanes = ", then ".join(view.lanes)
    reason = f" ({view.lanes_reason})" if view.lanes_reason else ""
    yield required(
        f"{', '.join(left)} left. Lanes, the most promising first: {lanes}{reason}.\n"
        f"Give up to {wanted} different proposals, best first, in at most "
        f"{view.reply_tokens} tokens."
    )
