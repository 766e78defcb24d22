# SPDX-License-Identifier: Apache-2.0
"""What turning a knob did before, on this task and on similar ones."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from kope_tvm.memory.transitions import Transition
from kope_tvm.space import Knob, Value

_TURN = re.compile(r"(?:undo )?#(\d+) ([^>]+) -> ([^>,]+|\[[^\]]*\])")
"""A change of one knob, as `space.difference` and `rewind` spell it."""
_FAILURE = -math.log(2.0)
_MOST = math.log(4.0)
"""A log ratio beyond which a change says no more about another task."""


@dataclass(frozen=True)
class Turns:
    """The worth of single turns by space, knob and the two values."""

    _worth: dict[tuple[str, str, str, str], float] = field(default_factory=dict)

    @classmethod
    def learned(cls, transitions: Iterable[Transition]) -> Turns:
        """From what changes did; of the same turn the most telling one counts."""
        worth: dict[tuple[str, str, str, str], float] = {}
        for one in transitions:
            turn = _TURN.fullmatch(one.change)
            if turn is None:
                continue
            ratio = math.log(one.ratio) if one.ratio > 0 else _FAILURE
            gain = one.similarity * max(-_MOST, min(ratio, _MOST))
            index, before, after = turn.groups()
            worth.setdefault((one.space, index, before, after), gain)
            worth.setdefault((one.space, index, after, before), -gain)
        return cls(worth)

    def worth(self, space: str, knob: Knob, value: Value) -> float:
        """The log ratio to expect of a turn, weighed by how alike the task was; 0 where unknown."""
        after = replace(knob, value=value).shown
        return self._worth.get((space, str(knob.index), knob.shown, after), 0.0)
