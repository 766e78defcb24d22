# SPDX-License-Identifier: Apache-2.0
"""A model that may only plan schedules, and the search that fills what it leaves."""

from __future__ import annotations

from dataclasses import replace

from kope_tvm.bench.ablation import Ablation, Seats, usual_seats, voice
from kope_tvm.briefing import Briefing
from kope_tvm.context import Context
from kope_tvm.planner import PLAN, Choice


class Plans(Briefing):
    """Opens one lane."""

    lanes = (PLAN,)

    def choice(self, context: Context, lessons: tuple[str, ...]) -> Choice:
        """Plan, if anything."""
        found = super().choice(context, lessons)
        return replace(found, lanes=(PLAN,), reason="the only lane") if found.lanes else found


def _seats(proposer: str) -> Seats:
    return {**voice(proposer, Plans), **usual_seats("sketch")}


ABLATION = Ablation("plan lane only", needs_model=True, seats=_seats)
