# SPDX-License-Identifier: Apache-2.0
"""Proposes what a language model says: asked while others are measured, mended where it fails."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass

from kope_tvm.briefing import Briefing
from kope_tvm.chat.dialogue import Dialogue, Reply, Request
from kope_tvm.chat.outcomes import outcome_of, said_before, unread
from kope_tvm.context import Context
from kope_tvm.debugger import near_misses
from kope_tvm.prompt.brief import Brief
from kope_tvm.prompt.reply import Reading, read_reply
from kope_tvm.proposal import Origin, Proposal, Repair, proposal_text
from kope_tvm.seat import Seat

_ENOUGH = 2
"""Times a round's wish that may lie unread before no more is asked for."""

_PATIENCE = 2
"""Replies in a row with nothing new in them, after which a task is not asked about again."""


@dataclass(frozen=True)
class _Call:
    """A request on its way."""

    request: Request
    future: Future[Reply]
    round_no: int
    cites: tuple[str, ...]
    repair: Repair | None = None


class Chat:
    """One call a round, read in the next; what fails gets a call of its own."""

    name = "chat"

    def __init__(self, seat: Seat, briefing: Briefing | None = None) -> None:
        self._seat = seat
        self._briefing = briefing or Briefing(seat)
        self._calls: list[_Call] = []
        self._ready: deque[Proposal] = deque()
        self._asked: dict[str, Request] = {}
        """Of every proposal, by `proposal_text`: its outcome goes on record there."""
        self._num_seen = 0
        self._num_asked = 0
        self._num_stale = 0
        self._mended: set[str] = set()
        """Subjects of the repairs that were asked for."""
        self._waited = (0, 0.0)
        """The round, and the seconds it has waited for the model."""

    def propose(self, context: Context) -> Sequence[Proposal]:
        """What earlier calls brought; starts the next ones."""
        dialogue = self._seat.dialogue
        if dialogue is None:
            return []
        self._follow(context, dialogue)
        if context.num_wanted > 0:
            self._mend(context, dialogue)
            self._wait(context, dialogue)
        self._read(context, dialogue)
        if context.num_wanted > 0:
            self._ask(context, dialogue)
        count = min(context.num_wanted, len(self._ready))
        return [self._ready.popleft() for _ in range(count)]

    def _ask(self, context: Context, dialogue: Dialogue) -> None:
        """One call a round, unless its answer would come too late or nothing is left to win."""
        is_asked = any(c.round_no == context.round_no and not c.repair for c in self._calls)
        has_enough = len(self._ready) >= _ENOUGH * context.num_wanted
        is_idle = context.is_last_round or self._num_stale >= _PATIENCE
        if is_idle or is_asked or has_enough or not dialogue.is_open:
            return
        brief = self._briefing.proposal(context, self._ready, dialogue.left)
        if brief is not None:
            self._num_asked += 1
            self._start(brief, str(self._num_asked), context, dialogue)

    def _mend(self, context: Context, dialogue: Dialogue) -> None:
        for miss in near_misses(context.trials, self.name):
            subject = f"{miss.trial.state}:{miss.repair.turn}"
            if subject not in self._mended and dialogue.is_open and not context.is_last_round:
                self._mended.add(subject)
                brief = self._briefing.repair(context, miss, dialogue.left)
                if brief is not None:
                    self._start(brief, subject, context, dialogue, miss.repair)

    def _start(
        self,
        brief: Brief,
        subject: str,
        context: Context,
        dialogue: Dialogue,
        repair: Repair | None = None,
    ) -> None:
        request = Request(
            context.task.key,
            "repair" if repair else "propose",
            subject,
            brief.system,
            brief.prompt,
            brief.schema,
            brief.states,
            brief.reply_tokens,
            brief.dropped_tokens,
        )
        call = _Call(request, dialogue.ask(request), context.round_no, brief.cites, repair)
        self._calls.append(call)

    def _wait(self, context: Context, dialogue: Dialogue) -> None:
        """Wait for what earlier rounds asked, and for repairs, as long as the round may."""
        due = [call.future for call in self._calls if _is_due(call, context)]
        round_no, waited_secs = self._waited
        waited_secs = waited_secs if round_no == context.round_no else 0.0
        left_secs = dialogue.patience_secs - waited_secs
        if due and left_secs > 0 and len(self._ready) < context.num_wanted:
            before_secs = self._seat.waiting.secs
            with self._seat.waiting:
                wait(due, timeout=left_secs)
            waited_secs += self._seat.waiting.secs - before_secs
        self._waited = (context.round_no, waited_secs)

    def _read(self, context: Context, dialogue: Dialogue) -> None:
        """Read the replies that are there, in the order of their calls."""
        done = [call for call in self._calls if _is_due(call, context) and call.future.done()]
        self._calls = [call for call in self._calls if call not in done]
        for call in done:
            reply = call.future.result()
            reading = self._reading(call, reply)
            fresh = [one for one in reading.proposals if proposal_text(one) not in self._asked]
            self._asked.update((proposal_text(one), call.request) for one in fresh)
            self._ready.extend(fresh)
            if not call.repair and not reply.error:
                self._num_stale = 0 if fresh or reading.refused else self._num_stale + 1
            old = [one for one in reading.proposals if one not in fresh]
            outcomes = [*unread(reply, reading.refused), *map(said_before, old)]
            dialogue.note(call.request, outcomes)
            self._ask_again(call, reading, context, dialogue)

    def _reading(self, call: _Call, reply: Reply) -> Reading:
        if reply.error:
            return Reading()
        states = call.request.states if reply.states is None else reply.states
        parent = call.repair.state if call.repair else ""
        origin = Origin(
            self.name, parent, cites=call.cites, tokens=reply.usage.total, repair=call.repair
        )
        return read_reply(reply.text, states, self._briefing.lanes, origin)

    def _ask_again(
        self, call: _Call, reading: Reading, context: Context, dialogue: Dialogue
    ) -> None:
        """Once, for the first piece of a reply that could not be read."""
        if not reading.refused or call.repair is not None or not dialogue.is_open:
            return
        refused = reading.refused[0]
        brief = self._briefing.refusal(context, refused, dialogue.left)
        if brief is None:
            return
        state = f"reply-{call.request.subject}"
        repair = Repair(state, 1, str(refused.verdict)[:160])
        self._start(brief, f"{state}:1", context, dialogue, repair)

    def _follow(self, context: Context, dialogue: Dialogue) -> None:
        """Put on record what became of proposals since the last time."""
        seen, fresh = context.trials[: self._num_seen], context.trials[self._num_seen :]
        incumbent_secs = min((trial.secs for trial in seen), default=float("inf"))
        for trial in fresh:
            request = self._asked.get(proposal_text(trial.proposal))
            if request is not None:
                dialogue.note(request, [outcome_of(trial, incumbent_secs)])
            incumbent_secs = min(incumbent_secs, trial.secs)
        self._num_seen = len(context.trials)


def _is_due(call: _Call, context: Context) -> bool:
    """A round's own call is read in the next one, while the others were measured."""
    return call.repair is not None or call.round_no < context.round_no
