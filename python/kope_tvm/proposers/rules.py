# SPDX-License-Identifier: Apache-2.0
"""Proposes the first guess of every schedule rule that knows the function."""

from __future__ import annotations

from collections.abc import Sequence

from kope_tvm.code_form import generically
from kope_tvm.context import Context
from kope_tvm.proposal import Decisions, Origin, Proposal
from kope_tvm.seat import Seat


class Rules:
    """What `schedules/` knows, before anything was measured."""

    def __init__(self, seat: Seat) -> None:
        self._workbench = seat.bench
        self._said: set[str] = set()

    def propose(self, context: Context) -> Sequence[Proposal]:
        """First guesses not proposed before."""
        self._said |= {
            t.proposal.trace for t in context.trials if isinstance(t.proposal, Decisions)
        }
        guesses = [(space, "first guess") for space in self._workbench.rule_spaces]
        ordered = [(generically(space), "for a generic core") for space, _ in guesses]
        fresh = [
            Decisions(space.name, space.trace, Origin("rules", change=change))
            for space, change in (*guesses, *ordered)
            if space is not None and space.trace not in self._said
        ]
        chosen = fresh[: context.num_wanted]
        self._said |= {one.trace for one in chosen}
        return chosen
