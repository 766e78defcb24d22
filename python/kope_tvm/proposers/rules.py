# SPDX-License-Identifier: Apache-2.0
"""Proposes the first guess of every schedule rule that knows the function."""

from __future__ import annotations

from collections.abc import Sequence

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
        fresh = [s for s in self._workbench.rule_spaces if s.trace not in self._said]
        chosen = fresh[: context.num_wanted]
        self._said |= {space.trace for space in chosen}
        origin = Origin("rules", change="first guess")
        return [Decisions(space.name, space.trace, origin) for space in chosen]
