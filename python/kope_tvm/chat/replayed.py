# SPDX-License-Identifier: Apache-2.0
"""A stored run's exchanges answered again, without a network."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from threading import Lock

from kope_tvm.chat.dialogue import Left, Outcome, Reply, Request, Spent
from kope_tvm.chat.exchanges import Exchange, key_of, read_exchanges

NOT_ON_RECORD = "not on record"


class ReplayDialogue:
    """Answers a request with the reply that one of the same task, purpose and subject had.

    Where a record holds several of them (a run that was resumed), each answers once, in order.
    """

    notices: Sequence[str] = ()
    patience_secs = 0.0
    """Replies are there at once, and none comes later."""

    def __init__(self, path: Path) -> None:
        """Raises UsageError where the file is not a record of exchanges."""
        self._lock = Lock()
        self._stored: dict[tuple[str, str, str], deque[Exchange]] = {}
        for exchange in read_exchanges(path):
            self._stored.setdefault(exchange.key, deque()).append(exchange)
        self._spent = Spent()

    @property
    def is_open(self) -> bool:
        """Whether stored replies of any task are left."""
        with self._lock:
            return any(self._stored.values())

    @property
    def spent(self) -> Spent:
        """What the replies given so far cost when they were recorded; money is not on record."""
        with self._lock:
            return self._spent

    @property
    def left(self) -> Left:
        """No limit: nothing is spent."""
        return Left()

    def ask(self, request: Request) -> Future[Reply]:
        """Answer at once; the reply is to be read against the programs of the stored request."""
        answer: Future[Reply] = Future()
        answer.set_result(self._reply(request))
        return answer

    def note(self, request: Request, outcomes: Sequence[Outcome]) -> None:
        """Write nothing: the record stays as it was."""

    def close(self) -> None:
        """Nothing is in flight."""

    def _reply(self, request: Request) -> Reply:
        with self._lock:
            left = self._stored.get(key_of(request))
            if not left:
                return Reply(mode="replay", error=NOT_ON_RECORD)
            stored = left.popleft()
            usage = stored.reply.usage
            self._spent = replace(
                self._spent,
                calls=self._spent.calls + 1,
                prompt_tokens=self._spent.prompt_tokens + usage.prompt_tokens,
                completion_tokens=self._spent.completion_tokens + usage.completion_tokens,
            )
            return replace(stored.reply, mode="replay", states=stored.request.states)
