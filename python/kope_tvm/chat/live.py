# SPDX-License-Identifier: Apache-2.0
"""A dialogue with an endpoint that may be slow, wrong or gone; nothing it does stops a run."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import Future
from pathlib import Path

from kope_tvm.chat.address import Address
from kope_tvm.chat.background import Background
from kope_tvm.chat.bill import Bill
from kope_tvm.chat.breaker import Breaker, Pass
from kope_tvm.chat.budget import Budget
from kope_tvm.chat.call import Call, Ending, Sender, Sign
from kope_tvm.chat.completion import one_line
from kope_tvm.chat.dialogue import Left, Outcome, Reply, Request, Spent
from kope_tvm.chat.exchanges import Exchanges
from kope_tvm.chat.modes import Modes
from kope_tvm.chat.redaction import without_secrets
from kope_tvm.chat.tokens import Calibration
from kope_tvm.config import Endpoint
from kope_tvm.errors import StorageError

GIVEN_UP = "endpoint given up"
CLOSED = "closed"


class LiveDialogue:
    """Calls run beside the caller, a few at a time, each bounded by the endpoint's deadline."""

    def __init__(
        self,
        endpoint: Endpoint,
        key: str,
        budget: Budget,
        exchanges: Exchanges,
        home: Path,
        max_in_flight: int = 4,
    ) -> None:
        """Connect to nothing yet; what the endpoint turns out to take is remembered in `home`."""
        self._endpoint = endpoint
        self._address = Address(endpoint.base_url)
        self._key = key.strip()
        self._budget = budget
        self._exchanges = exchanges
        self._breaker = Breaker(endpoint.shown_url, endpoint.deadline_secs)
        self._modes = Modes(home, endpoint.shown_url, endpoint.model)
        self._calibration = Calibration()
        self._slots = asyncio.Semaphore(max_in_flight)
        self._finding_out = asyncio.Lock()
        self._background = Background("kope-endpoint")
        self._sender: Sender | None = None
        self._is_closed = False
        self._unrecorded = ""

    @property
    def is_open(self) -> bool:
        return not self._is_closed and not self._budget.is_used_up and self._breaker.would_admit

    @property
    def patience_secs(self) -> float:
        is_hopeless = self._is_closed or self._breaker.is_given_up
        return 0.0 if is_hopeless else self._endpoint.deadline_secs

    @property
    def spent(self) -> Spent:
        return self._budget.spent

    @property
    def left(self) -> Left:
        return Left(self._budget.left_tokens, self._budget.left_calls)

    @property
    def notices(self) -> Sequence[str]:
        heard = [self._clean(line) for line in self._breaker.notices]
        return (*heard, self._unrecorded) if self._unrecorded else tuple(heard)

    def ask(self, request: Request) -> Future[Reply]:
        """Start a call and return at once; whatever goes wrong is the reply's `error`."""
        leave = None if self._is_closed else self._breaker.admit()
        if leave is not None:
            return self._background.start(self._answer(request, leave))
        reply = Reply(error=CLOSED if self._is_closed else GIVEN_UP)
        self._put_on_record(request, reply)
        known: Future[Reply] = Future()
        known.set_result(reply)
        return known

    def note(self, request: Request, outcomes: Sequence[Outcome]) -> None:
        """Put on record how a reply was read, and later what became of its proposals."""
        try:
            self._exchanges.noted(request, outcomes)
        except StorageError as error:
            self._unrecorded = str(error)

    def close(self) -> None:
        """End calls in flight; their replies say so."""
        self._is_closed = True
        self._background.stop(self._hang_up)

    async def _hang_up(self) -> None:
        if self._sender is not None:
            await self._sender.close()

    async def _answer(self, request: Request, leave: Pass) -> Reply:
        bill = Bill(self._budget, self._calibration)
        began = time.monotonic()
        try:
            async with self._turn():
                began = time.monotonic()
                ending = await self._ended(request, leave, bill)
        except asyncio.CancelledError:
            ending = Ending(Sign.NONE, error=CLOSED)
        except Exception as error:  # The contract: a call that goes wrong is a reply.
            ending = Ending(Sign.NONE, error=f"{type(error).__name__}: {error}")
        bill.forfeit()
        self._breaker.hand_back(leave)
        reply = Reply(
            self._clean(ending.text),
            bill.usage,
            time.monotonic() - began,
            ending.mode,
            one_line(self._clean(ending.error)),
        )
        self._put_on_record(request, reply)
        return reply

    @contextlib.asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """A place among the calls in flight; one at a time until the server's mode is known."""
        async with self._slots:
            if not self._modes.is_settled:
                async with self._finding_out:
                    if not self._modes.is_settled:
                        yield
                        return
            yield

    async def _ended(self, request: Request, leave: Pass, bill: Bill) -> Ending:
        if not self._breaker.holds(leave):
            return Ending(Sign.NONE, error=GIVEN_UP)
        deadline_secs = self._endpoint.deadline_secs
        call = Call(request, self._sender_of_calls(), self._modes, bill)
        sent_at = time.monotonic()
        work = asyncio.ensure_future(call.run(deadline_secs))
        try:
            # Unlike wait_for, this does not wait for the work to take note of its end.
            await asyncio.wait({work}, timeout=deadline_secs)
        finally:
            is_late = not work.done()
            work.cancel()
        if is_late:
            self._breaker.silent(leave, sent_at)
            return Ending(Sign.NONE, error=f"no answer within {deadline_secs:g} s")
        ending = work.result()
        self._report(leave, ending)
        return ending

    def _report(self, leave: Pass, ending: Ending) -> None:
        """Tell the breaker what a call that ended in time says about the endpoint."""
        if ending.sign is Sign.ANSWERED:
            self._breaker.answered()
        elif ending.sign is Sign.GONE or ending.rest_secs > 0:
            self._breaker.gone(leave, f"said {ending.error}", ending.rest_secs)
        elif ending.sign is Sign.FAILED:
            self._breaker.failed(leave, f"said {ending.error}")

    def _sender_of_calls(self) -> Sender:
        if self._sender is None:
            # Not before the first call: the client takes a second to import.
            from kope_tvm.chat.endpoint import Wire

            self._sender = Wire(self._address, self._endpoint.model, self._key)
        return self._sender

    def _clean(self, text: str) -> str:
        for secret in (self._key, self._address.password):
            text = without_secrets(text, secret)
        return text

    def _put_on_record(self, request: Request, reply: Reply) -> None:
        try:
            self._exchanges.answered(request, reply)
        except StorageError as error:
            self._unrecorded = str(error)
