# SPDX-License-Identifier: Apache-2.0
"""A model asked for scripts in MLIR's words: one call a round, and one for each near miss."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, replace

from kope_tvm.chat.dialogue import Dialogue, Reply, Request
from kope_tvm.chat.outcomes import unread
from kope_tvm.debugger import mendable
from kope_tvm.mlir.function import Function
from kope_tvm.mlir.script_briefing import LIMIT_TOKENS, REPLY_TOKENS, ScriptBriefing
from kope_tvm.mlir.script_outcomes import outcome_of, said_before
from kope_tvm.mlir.script_proposal import ScriptProposal, Tile
from kope_tvm.mlir.script_proposers import ScriptTrial
from kope_tvm.mlir.script_reply import ScriptReading, read_scripts
from kope_tvm.prompt.brief import Brief
from kope_tvm.proposal import Origin, Repair

NAME = "chat"
_PATIENCE = 2
"""Replies in a row with nothing new in them, after which no more are asked for."""


@dataclass(frozen=True)
class _Call:
    """A request on its way."""

    request: Request
    future: Future[Reply]
    repair: Repair | None = None


class Asked:
    """Proposes what a model says in time, and mends what it said; silence costs its patience."""

    def __init__(self, function: Function, dialogue: Dialogue) -> None:
        self.notices: list[str] = []
        """What the user should hear, a line each."""
        self._function = function
        self._dialogue = dialogue
        self._briefing = ScriptBriefing(function)
        self._calls: list[_Call] = []
        self._ready: deque[ScriptProposal] = deque()
        self._asked: dict[str, Request] = {}
        """Of every proposal, by its text: its outcome goes on record there."""
        self._num_asked = 0
        self._num_stale = 0
        self._mended: set[str] = set()
        """Subjects of the repairs that were asked for."""
        self._best_secs = float("inf")

    def propose(self, trials: Sequence[ScriptTrial], wanted: int) -> Sequence[ScriptProposal]:
        """At most half of what is wanted: others may be right too."""
        share = (wanted + 1) // 2
        self._mend(trials)
        self._ask(trials, share)
        wait([call.future for call in self._calls], timeout=self._dialogue.patience_secs)
        self._read({trial.proposal.text() for trial in trials})
        return [self._ready.popleft() for _ in range(min(share, len(self._ready)))]

    def follow(self, trial: ScriptTrial) -> None:
        """Put on record what became of a trial, be it the model's."""
        request = self._asked.get(trial.proposal.text())
        if request is not None:
            self._dialogue.note(request, [outcome_of(trial, self._best_secs)])
        self._best_secs = min(self._best_secs, trial.secs)

    def _mend(self, trials: Sequence[ScriptTrial]) -> None:
        for trial, repair in mendable(trials, NAME):
            subject = f"{trial.state}:{repair.turn}"
            if subject not in self._mended and self._dialogue.is_open:
                self._mended.add(subject)
                brief = self._briefing.repair(trial, self._limit_tokens)
                if brief is not None:
                    self._start(brief, subject, repair)

    def _ask(self, trials: Sequence[ScriptTrial], wanted: int) -> None:
        is_asked = any(call.repair is None for call in self._calls)
        is_idle = self._num_stale >= _PATIENCE or len(self._ready) >= wanted
        if is_asked or is_idle or not self._dialogue.is_open:
            return
        limit_tokens = self._limit_tokens
        brief = self._briefing.proposal(trials, wanted, limit_tokens)
        if brief is not None:
            self._num_asked += 1
            self._start(brief, str(self._num_asked))
        elif limit_tokens == LIMIT_TOKENS:
            self._num_stale = _PATIENCE  # It will not fit the next time either.
            self.notices.append(
                f"the model is not asked: the function's text is more than a call's {LIMIT_TOKENS} "
                "tokens"
            )

    @property
    def _limit_tokens(self) -> int:
        left = self._dialogue.left.tokens
        return LIMIT_TOKENS if left is None else min(LIMIT_TOKENS, left - REPLY_TOKENS)

    def _start(self, brief: Brief, subject: str, repair: Repair | None = None) -> None:
        request = Request(
            self._function.bench.task.key,
            "repair" if repair else "propose",
            subject,
            brief.system,
            brief.prompt,
            brief.schema,
            max_output_tokens=REPLY_TOKENS,
            dropped=brief.dropped_tokens,
        )
        self._calls.append(_Call(request, self._dialogue.ask(request), repair))

    def _read(self, tried: set[str]) -> None:
        """Read the replies that are there, in the order of their calls."""
        done = [call for call in self._calls if call.future.done()]
        self._calls = [call for call in self._calls if call not in done]
        for call in done:
            reply = call.future.result()
            reading = self._reading(call, reply)
            fresh, old = self._sorted(reading.proposals, call.request, tried)
            self._ready.extend(fresh)
            if call.repair is None and not reply.error:
                self._num_stale = 0 if fresh or reading.refused else self._num_stale + 1
            outcomes = [*unread(reply, reading.refused), *map(said_before, old)]
            if outcomes:
                self._dialogue.note(call.request, outcomes)

    def _sorted(
        self, proposals: Sequence[ScriptProposal], request: Request, tried: set[str]
    ) -> tuple[list[ScriptProposal], list[ScriptProposal]]:
        """New ones, and those that were proposed before."""
        fresh: list[ScriptProposal] = []
        old: list[ScriptProposal] = []
        for one in proposals:
            text = one.text()
            is_new = text not in tried and text not in self._asked
            (fresh if is_new else old).append(one)
            if is_new:
                self._asked[text] = request
        return fresh, old

    def _reading(self, call: _Call, reply: Reply) -> ScriptReading:
        if reply.error:
            return ScriptReading()
        repair = call.repair
        change = f"mends {repair.signature}" if repair else "a model's"
        parent = repair.state if repair else ""
        origin = Origin(NAME, parent, change, tokens=reply.usage.total, repair=repair)
        reading = read_scripts(reply.text, origin)
        return replace(reading, proposals=tuple(map(self._with_tile, reading.proposals)))

    def _with_tile(self, proposal: ScriptProposal) -> ScriptProposal:
        """A recipe that the search could have come to bears its tile, and crosses to TVM."""
        space = self._function.space
        knobs = space.knobs_of(proposal.recipe) if proposal.recipe is not None else None
        if knobs is None:
            return proposal
        return replace(proposal, tile=Tile(knobs.rows, knobs.columns, knobs.depth))
