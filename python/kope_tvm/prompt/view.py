# SPDX-License-Identifier: Apache-2.0
"""All that a prompt may be made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from kope_tvm.context import Context
from kope_tvm.prompt.notes import Notes, notes_of
from kope_tvm.prompt.program import Program, programs
from kope_tvm.proposal import Proposal
from kope_tvm.workbench import Workbench

LANES = ("decisions", "plan", "rewrite")

REPLY_TOKENS = 600
SCRIPT_TOKENS = 1200
"""Of a reply that is to hold a whole function."""


def reply_tokens(lanes: Sequence[str]) -> int:
    """How long a reply may be where these lanes are open, the most promising first."""
    return SCRIPT_TOKENS if lanes[:1] == ("rewrite",) else REPLY_TOKENS


_MAIN_LANES = 2


class Transition(Protocol):
    """A change that was measured before, on this task or one like it."""

    @property
    def change(self) -> str: ...
    @property
    def ratio(self) -> float:
        """Time before over time after: above 1 is faster; 0 where it failed."""
        ...

    @property
    def code(self) -> str:
        """`E_...` of the failure; empty where it ran."""
        ...

    @property
    def reason(self) -> str: ...
    @property
    def task_name(self) -> str: ...
    @property
    def similarity(self) -> float: ...
    @property
    def space(self) -> str: ...
    @property
    def state(self) -> str:
        """What it led to; empty where unknown."""
        ...


class Fix(Protocol):
    """What was done about a failure like this one before."""

    @property
    def reason(self) -> str: ...
    @property
    def change(self) -> str: ...
    @property
    def worked(self) -> bool: ...


@dataclass(frozen=True)
class View:
    """What the sections of one prompt see."""

    context: Context
    bench: Workbench
    lanes: tuple[str, ...] = LANES
    """Open ones, the most promising first."""
    lanes_reason: str = ""
    """Why in this order, one line."""
    lessons: tuple[str, ...] = ()
    transitions: tuple[Transition, ...] = ()
    feedback: tuple[str, ...] = ()
    """What the incumbent's machine code shows, a line each."""
    pending: tuple[Proposal, ...] = ()
    """Proposed before, and not measured yet."""
    tokens_left: int | None = None
    """None where there is no limit."""
    calls_left: int | None = None
    limit_tokens: int = 2500
    """For system, prompt and schema together."""

    @property
    def reply_tokens(self) -> int:
        return reply_tokens(self.lanes)

    @cached_property
    def notes(self) -> Notes:
        return notes_of(self.bench)

    @cached_property
    def programs(self) -> tuple[Program, ...]:
        return programs(self.context, self.bench, self.notes)

    @property
    def main_lanes(self) -> tuple[str, ...]:
        """Those that the prompt has room to say much about."""
        return self.lanes[:_MAIN_LANES]

    @property
    def incumbent(self) -> Program | None:
        """`s1`; None before the first right measurement."""
        first = next(iter(self.programs), None)
        return first if first is not None and first.trial is not None else None
