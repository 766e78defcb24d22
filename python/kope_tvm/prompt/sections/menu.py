# SPDX-License-Identifier: Apache-2.0
"""Legal moves on the untuned function, a few of them by chance: all of them invite the same ideas.

Autocomp keeps a quarter of its menu: with the whole of it, plans repeat each other.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence

from kope_tvm.plan.menu import Move
from kope_tvm.prompt.item import Item
from kope_tvm.prompt.view import View

ORDER = 90
TITLE = "Some legal moves on the untuned function, picked at random"
_FEWEST = 10
_SHARE = 0.4
_MOST = 16


def items(view: View) -> Iterator[Item]:
    """One move an item, where plans are promising; the same ones for a seed and round."""
    if "plan" not in view.main_lanes:
        return
    context = view.context
    kept = drop_out(view.notes.moves, f"{context.seed}:{context.round_no}")
    for move in kept:
        yield Item(move.text, value=8)


def drop_out(moves: Sequence[Move], seed: str) -> tuple[Move, ...]:
    """Ten moves or two fifths, in their order, as many of one mechanism as of another."""
    shuffled = list(moves)
    random.Random(seed).shuffle(shuffled)
    by_mechanism: dict[str, list[Move]] = defaultdict(list)
    for move in shuffled:
        by_mechanism[move.mechanism].append(move)
    wanted = min(max(_FEWEST, round(_SHARE * len(moves))), _MOST)
    kept: list[Move] = []
    while len(kept) < min(wanted, len(moves)):
        for queue in by_mechanism.values():
            kept += queue[:1]
            del queue[:1]
    chosen = {id(move) for move in kept[:wanted]}
    return tuple(move for move in moves if id(move) in chosen)
