# SPDX-License-Identifier: Apache-2.0
"""No context management: the model is sent all there is, oldest first, until its window is full."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kope_tvm.bench.ablation import Ablation, briefed
from kope_tvm.briefing import Briefing
from kope_tvm.chat.dialogue import Left
from kope_tvm.chat.tokens import bound
from kope_tvm.context import Context, Trial
from kope_tvm.prompt.brief import Brief, brief_of
from kope_tvm.prompt.packing import cut_to
from kope_tvm.prompt.texts import text
from kope_tvm.prompt.view import LANES
from kope_tvm.proposal import Proposal, proposal_text

_WINDOW_TOKENS = 32_000
"""A common context length, less a reply."""
_MOST_TRANSITIONS = 256


class Everything(Briefing):
    """Selects nothing: whole programs, every trial, all that is remembered."""

    def proposal(self, context: Context, pending: Sequence[Proposal], left: Left) -> Brief | None:
        """The history as it grew; the end of it is lost where it is too long."""
        lessons = self.lessons(context)
        choice = self.choice(context, lessons)
        if not choice.worth_asking:
            return None
        view = self.view(context, choice, lessons, left)
        told = [
            f"machine: {context.task.target}",
            str(self._seat.bench.mod["main"].script()),
            *map(_told, context.trials),
            *self._remembered(context),
            *lessons,
        ]
        system = "\n".join([text("contract"), *(text(f"lane_{lane}") for lane in LANES)])
        ask = (
            f"Give up to {max(1, context.num_wanted)} proposals; {context.trials_left} trials left."
        )
        prompt = cut_to("\n".join(told), _WINDOW_TOKENS, bound)
        return brief_of(view, system, f"{prompt}\n{ask}")

    def _remembered(self, context: Context) -> Iterator[str]:
        memory = self._seat.memory
        for one in memory.transitions(context.task, _MOST_TRANSITIONS) if memory else ():
            result = f"{one.ratio} {one.code} {one.reason}"
            yield f"{one.task_name} {one.space}: {one.change} => {result}"


def _told(trial: Trial) -> str:
    result = trial.reason or f"{trial.secs} s"
    return f"tried {proposal_text(trial.proposal)} => {trial.code} {result}"


ABLATION = Ablation("without context management", needs_model=True, seats=briefed(Everything))
