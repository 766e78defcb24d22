# SPDX-License-Identifier: Apache-2.0
"""What changes did before, here and on functions like this one, at least one that failed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import log

from kope_tvm.prompt.amounts import three_digits
from kope_tvm.prompt.item import Item
from kope_tvm.prompt.view import Transition, View

ORDER = 50
TITLE = "Changes measured before => speed-up (below 1 is slower)"
_MOST = 5
_REASON_CHARS = 100
_CHANGE_CHARS = 160


def items(view: View) -> Iterator[Item]:
    """The most telling first; the first failure is worth as much as the best success."""
    ranked = sorted(view.transitions, key=_weight, reverse=True)
    good = [one for one in ranked if not _is_negative(one)]
    bad = [one for one in ranked if _is_negative(one)]
    for number, one in enumerate(bad[:1] + good[: _MOST - 1]):
        yield Item(_line(one), value=120 / (1 + number / 4))
    for one in bad[1:2]:
        yield Item(_line(one), value=50)


def _is_negative(one: Transition) -> bool:
    return bool(one.code) or one.ratio < 1


def _weight(one: Transition) -> float:
    told = abs(log(one.ratio)) if one.ratio > 0 and not one.code else 0.7
    return one.similarity * (told + 0.05)


def _line(one: Transition) -> str:
    result = (
        f"{one.code} {one.reason}"[:_REASON_CHARS] if one.code else f"{three_digits(one.ratio)}x"
    )
    where = ", ".join(filter(None, (one.task_name, one.space)))
    # A difference of settings calls a knob #9 where a prompt says d9.
    change = re.sub(r"#(?=\d)", "d", one.change)[:_CHANGE_CHARS]
    return f"{change} => {result}" + (f" ({where})" if where else "")
