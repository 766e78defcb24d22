# SPDX-License-Identifier: Apache-2.0
"""Proposes what a language model says: asked while others are measured, mended where it fails."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass

from kope_tvm.briefing import Briefing
from kope_tvm.chat.dialogue import Outcome, Reply, Request
from kope_tvm.chat.outcomes import outcome_of
from kope_tvm.context import Context
from kope_tvm.debugger import near_misses
from kope_tvm.prompt.brief import Brief
from kope_tvm.prompt.reply import Reading, read_reply
from kope_tvm.proposal import Origin, Proposal, Repair, proposal_text, with_origin
from kope_tvm.seat import Seat

_ENOUGH = 2
"""Times a round's wish that may lie unread before no more is asked for."""


@dataclass(frozen=True)
class _Call:
    """A request on its way."""

    request: Request
    future: Future[Reply]
    round_no: int
    parent: str
    """State of the incumbent it was asked about, or of what it mends."""
    repair: Repair | None = None


class Chat:
    """One call a round, read in the next; near misses get a call of their own."""

    name = "chat"

    def __init__(self, seat: Seat) -> None:
        self._dialogue = seat.dialogue
        self._bench = seat.bench
        self._briefing = Briefing(seat)
        self._calls: list[_Call] = []
        self._ready: deque[Proposal] = deque()
        self._asked: dict[str, Request] = {}
        """Of the proposals that wait for their outcome, by `proposal_text`."""
        self._num_seen = 0
        self._num_asked = 0
        self._waited = (0, 0.0)
        """The round, and the seconds it has waited for the model."""

    def propose(self, context: Context) -> Sequence[Proposal]:
        """What earlier calls brought; starts the next ones."""
        if self._dialogue is None:
            return []
        self._follow(context)
        if context.num_wanted > 0:
            self._mend(context)
            self._ask(context)
            self._wait(context)
        self._read(context.round_no)
        count = min(context.num_wanted, len(self._ready))
        return [self._ready.popleft() for _ in range(count)]

    def _ask(self, context: Context) -> None:
        """One call a round, unless its answer would come too late or nothing is left to win."""
        assert self._dialogue is not None
        is_last = context.trials_left <= context.num_wanted
        is_asked = any(c.round_no == context.round_no and not c.repair for c in self._calls)
        has_enough = len(self._ready) >= _ENOUGH * context.num_wanted
        if is_last or is_asked or has_enough or not self._dialogue.is_open:
            return
        brief = self._briefing.proposal(context, self._dialogue.spent)
        if brief is not None:
            self._num_asked += 1
            best = context.best
            self._start(brief, "propose", str(self._num_asked), context, best.state if best else "")

    def _mend(self, context: Context) -> None:
        assert self._dialogue is not None
        pending = {call.repair.state for call in self._calls if call.repair}
        for miss in near_misses(context.trials, self.name):
            if miss.trial.state in pending or not self._dialogue.is_open:
                continue
            brief = self._briefing.repair(context, miss)
            subject = f"{miss.trial.state}:{miss.repair.turn}"
            self._start(brief, "repair", subject, context, miss.trial.state, miss.repair)

    def _start(
        self,
        brief: Brief,
        purpose: str,
        subject: str,
        context: Context,
        parent: str,
        repair: Repair | None = None,
    ) -> None:
        assert self._dialogue is not None
        request = Request(
            context.task.key,
            purpose,
            subject,
            brief.system,
            brief.prompt,
            brief.schema,
            brief.states,
        )
        future = self._dialogue.ask(request)
        self._calls.append(_Call(request, future, context.round_no, parent, repair))

    def _wait(self, context: Context) -> None:
        """Wait for what earlier rounds asked, and for repairs, as long as the round may."""
        assert self._dialogue is not None
        due = [call.future for call in self._calls if self._is_due(call, context.round_no)]
        round_no, waited_secs = self._waited
        if round_no != context.round_no:
            waited_secs = 0.0
        left_secs = self._dialogue.patience_secs - waited_secs
        if due and left_secs > 0 and len(self._ready) < context.num_wanted:
            began = time.perf_counter()
            wait(due, timeout=left_secs)
            waited_secs += time.perf_counter() - began
        self._waited = (context.round_no, waited_secs)

    @staticmethod
    def _is_due(call: _Call, round_no: int) -> bool:
        return call.repair is not None or call.round_no < round_no

    def _read(self, round_no: int) -> None:
        """Read the replies that are there, in the order of their calls."""
        done = [c for c in self._calls if self._is_due(c, round_no) and c.future.done()]
        self._calls = [call for call in self._calls if call not in done]
        for call in done:
            self._ready.extend(self._proposals(call, call.future.result()))

    def _proposals(self, call: _Call, reply: Reply) -> Iterator[Proposal]:
        assert self._dialogue is not None
        states = call.request.states if reply.states is None else reply.states
        reading = read_reply(reply.text, states, self._bench)
        outcomes = [*_unread(reply, reading)]
        share = reply.usage.total // max(1, len(reading.proposals))
        for proposal in reading.proposals:
            text = proposal_text(proposal)
            if text not in self._asked:
                self._asked[text] = call.request
                yield with_origin(proposal, self._origin(proposal, call, share))
        self._dialogue.note(call.request, outcomes)

    def _origin(self, proposal: Proposal, call: _Call, tokens: int) -> Origin:
        given = proposal.origin
        parent = given.parent or call.parent
        return Origin(self.name, parent, given.change, given.cites, tokens, call.repair)

    def _follow(self, context: Context) -> None:
        """Put on record what became of proposals since the last time."""
        assert self._dialogue is not None
        incumbent_secs = min((t.secs for t in context.trials[: self._num_seen]), default=0.0)
        for trial in context.trials[self._num_seen :]:
            request = self._asked.get(proposal_text(trial.proposal))
            if request is not None:
                self._dialogue.note(request, [outcome_of(trial, incumbent_secs)])
            incumbent_secs = min(incumbent_secs or trial.secs, trial.secs)
        self._num_seen = len(context.trials)


def _unread(reply: Reply, reading: Reading) -> Iterator[Outcome]:
    """What of a reply is no proposal."""
    if reply.error:
        yield Outcome("", "", reply.text, stage="reply", code="E_ENDPOINT", reason=reply.error)
        return
    for piece in reading.refused:
        verdict = piece.verdict
        yield Outcome(
            piece.lane, "", piece.text, stage="reply", code=verdict.code, reason=verdict.reason
        )
