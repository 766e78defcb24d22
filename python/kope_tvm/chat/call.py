# SPDX-License-Identifier: Apache-2.0
"""The course of one call: tried again where that may help, in other modes where the first fails."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Protocol

from kope_tvm.chat.answer import Answer
from kope_tvm.chat.bill import Bill
from kope_tvm.chat.completion import error_text, read_completion
from kope_tvm.chat.dialogue import Request
from kope_tvm.chat.modes import WITH_SCHEMA, Modes, is_blamed, is_kept, schema_text
from kope_tvm.chat.tokens import bound, messages_bound

_MOST_TRIES = 3
_FIRST_PAUSE_SECS = 0.5
_PAUSE_SHARE = 0.05
"""The most of a deadline that the first pause may take."""

_TRANSIENT = frozenset({0, 408, 409, 425, 429})
"""Statuses below 500 that may be another one in a moment; 0 is a lost connection."""

_UNCOUNTED_BELOW = 500
"""A request refused with a status below was seen by no model."""

_GONE = frozenset({401, 403, 404})


class Sign(Enum):
    """What the end of a call says about the endpoint."""

    ANSWERED = "answered"
    FAILED = "failed"
    GONE = "gone"
    NONE = "none"


@dataclass(frozen=True)
class Ending:
    """How a call, or a try of it, ended."""

    sign: Sign
    text: str = field(default="", repr=False)
    error: str = ""
    mode: str = ""
    status: int = 200
    rest_secs: float = 0.0
    """How long the server wants to be left alone, where no call can wait so long."""
    is_mode_blamed: bool = False


class Sender(Protocol):
    """What sends a request."""

    async def post(self, messages: list[dict[str, str]], options: Mapping[str, Any]) -> Answer:
        """Ask for a chat completion; raises nothing."""
        ...

    async def close(self) -> None:
        """Drop the connections."""
        ...


class Call:
    """One request on its way to an ending."""

    def __init__(self, request: Request, sender: Sender, modes: Modes, bill: Bill) -> None:
        self._request = request
        self._sender = sender
        self._modes = modes
        self._bill = bill

    async def run(self, deadline_secs: float) -> Ending:
        """Try until there is an answer or no use in trying; whoever calls keeps to the deadline."""
        ends_at = time.monotonic() + deadline_secs
        ending = Ending(Sign.NONE)
        for mode in self._modes.rungs():
            ending = await self._tried(mode, deadline_secs, ends_at)
            if ending.is_mode_blamed:
                self._modes.missed(mode)
                continue
            if ending.sign is Sign.ANSWERED and not ending.error:
                self._modes.worked(mode)
            break
        return ending

    async def _tried(self, mode: str, deadline_secs: float, ends_at: float) -> Ending:
        """One mode, a few times."""
        pause_secs = min(_FIRST_PAUSE_SECS, _PAUSE_SHARE * deadline_secs)
        for number in range(1, _MOST_TRIES + 1):
            ending, asked_secs = await self._once(mode)
            if ending.status == 400 and self._modes.turned(ending.error):
                continue
            is_transient = ending.status in _TRANSIENT or ending.status >= 500
            is_doubted = ending.is_mode_blamed and not self._modes.is_settled
            if not is_transient or is_doubted or ending.sign is Sign.NONE:
                break
            if number == _MOST_TRIES:
                return replace(ending, error=f"{_head(ending)} after {number} tries{_tail(ending)}")
            wait_secs = asked_secs or pause_secs * 2 ** (number - 1) * random.uniform(0.75, 1.25)
            if time.monotonic() + wait_secs >= ends_at:
                asked = f"{_head(ending)}: asked to wait {wait_secs:g} s"
                return replace(ending, error=asked, rest_secs=wait_secs) if asked_secs else ending
            await asyncio.sleep(wait_secs)
        return ending

    async def _once(self, mode: str) -> tuple[Ending, float]:
        """One try, and how long the server wants to be left alone after it."""
        request = self._request
        if not self._bill.reserve(self._prompt_bound(mode), request.max_output_tokens):
            return Ending(Sign.NONE, error="budget", mode=mode), 0.0
        messages = [
            {"role": "system", "content": request.system},
            {"role": "user", "content": request.prompt},
        ]
        answer = await self._sender.post(messages, self._modes.options(request, mode))
        if answer.status and answer.status != 200:
            return self._refused(mode, answer.status, error_text(answer.body)), (
                answer.retry_after_secs or 0.0
            )
        if answer.fault:
            return self._broken(mode, answer), 0.0
        return self._answered(mode, answer.body), 0.0

    def _prompt_bound(self, mode: str) -> int:
        request = self._request
        messages = messages_bound(request.system, request.prompt)
        return messages + (bound(schema_text(request.schema)) if mode in WITH_SCHEMA else 0)

    def _answered(self, mode: str, body: bytes) -> Ending:
        said = read_completion(body, self._request.max_output_tokens)
        if said.status != 200:
            return self._refused(mode, said.status, said.error)
        self._bill.settle(said.usage)
        if said.is_garbled:
            return Ending(Sign.FAILED, error=said.error, mode=mode)
        is_blamed = not said.error and not is_kept(mode, said.text)
        return Ending(Sign.ANSWERED, said.text, said.error, mode, is_mode_blamed=is_blamed)

    def _refused(self, mode: str, status: int, error: str) -> Ending:
        if status < _UNCOUNTED_BELOW and status != 408:
            self._bill.release()
        else:
            self._bill.forfeit()
        blamed = is_blamed(mode, status, error)
        sign = Sign.GONE if status in _GONE or 300 <= status < 400 else Sign.FAILED
        line = f"{status}: {error}" if error else str(status)
        return Ending(sign, error=line, mode=mode, status=status, is_mode_blamed=blamed)

    def _broken(self, mode: str, answer: Answer) -> Ending:
        if answer.was_sent:
            self._bill.forfeit()
            return Ending(Sign.FAILED, error=answer.fault, mode=mode, status=answer.status)
        self._bill.release()
        return Ending(Sign.GONE, error=answer.fault, mode=mode)


def _head(ending: Ending) -> str:
    """The status, or what stands for it."""
    return ending.error.partition(": ")[0]


def _tail(ending: Ending) -> str:
    _, colon, text = ending.error.partition(": ")
    return colon + text
