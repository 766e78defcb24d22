# SPDX-License-Identifier: Apache-2.0
"""A fixed text of know-how in place of what was measured and remembered."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

from kope_tvm.bench.ablation import Ablation, briefed
from kope_tvm.briefing import Briefing
from kope_tvm.chat.dialogue import Left
from kope_tvm.context import Context
from kope_tvm.prompt.brief import Brief, brief_of
from kope_tvm.prompt.texts import text
from kope_tvm.prompt.view import LANES
from kope_tvm.proposal import Proposal

_SKILL = files("kope_tvm.bench.ablations") / "static_skill.md"


class Skilled(Briefing):
    """Tells the skill and the function; no time, no refusal, nothing remembered."""

    def proposal(self, context: Context, pending: Sequence[Proposal], left: Left) -> Brief | None:
        """The same words every round, but for the number of proposals."""
        choice = self.choice(context, ())
        if not choice.worth_asking:
            return None
        view = self.view(context, choice, (), left)
        system = "\n".join([text("contract"), *(text(f"lane_{lane}") for lane in LANES)])
        script = str(self._seat.bench.mod["main"].script())
        ask = f"Give up to {max(1, context.num_wanted)} proposals."
        return brief_of(view, system, f"{_SKILL.read_text(encoding='utf-8')}\n{script}\n{ask}")


ABLATION = Ablation("with a static skill", needs_model=True, seats=briefed(Skilled))
