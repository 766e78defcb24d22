# SPDX-License-Identifier: Apache-2.0
"""The wire to an OpenAI-compatible server: one request, one answer, and nothing is ever raised."""

from __future__ import annotations

import email.utils
import logging
import os
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

import openai

from kope_tvm.chat.address import Address
from kope_tvm.chat.answer import Answer
from kope_tvm.config import Endpoint

MOST_BYTES = 1 << 20
"""Of an answer; 600 tokens are some 3 KB, log probabilities and reasoning ten times that."""

_NO_KEY = "none"
"""Local servers want no key, but the client wants one to send."""

_ADDRESS_LOGGERS = ("httpx", "httpx2", "openai")
"""They log whole addresses."""

_UNREACHABLE = frozenset(
    {
        "ConnectError",
        "ConnectTimeout",
        "InvalidURL",
        "LocalProtocolError",
        "ProxyError",
        "UnsupportedProtocol",
    }
)
"""Errors of the HTTP client that are raised before a request is sent, by name: the client's own
package is not the same in all releases of openai.
"""


class Wire:
    """Sends requests to one model of one endpoint; used within one event loop."""

    def __init__(self, address: Address, model: str, key: str) -> None:
        self._address = address
        self._model = model
        self._key = key
        self._client: openai.AsyncOpenAI | None = None

    async def post(self, messages: list[dict[str, str]], options: Mapping[str, Any]) -> Answer:
        """Ask for a chat completion; `options` are further fields of the request's body."""
        try:
            return await self._post(messages, options)
        except _Refusal as error:
            return error.answer
        except Exception as error:  # What a network does is not known beforehand.
            return next(
                (each.answer for each in _causes(error) if isinstance(each, _Refusal)),
                _broken(error),
            )

    async def close(self) -> None:
        """Drop the connections."""
        if self._client is not None:
            await self._client.close()

    async def _post(self, messages: list[dict[str, str]], options: Mapping[str, Any]) -> Answer:
        if not (self._key.isascii() and self._key.isprintable()):
            # The client's own message would show it.
            return Answer(fault="the key holds what no header may hold", was_sent=False)
        if self._client is None:
            self._client = _client(self._address, self._key)
        sent = self._client.chat.completions.with_streaming_response.create(
            model=self._model,
            messages=messages,  # type: ignore[arg-type]
            extra_body=dict(options),
        )
        async with sent as response:
            return Answer(response.status_code, await _bounded(response.iter_bytes()))


class _Refusal(openai.OpenAIError):
    """An answer that is no completion; an OpenAIError passes through the client as it is."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(str(answer.status))
        self.answer = answer


def _client(address: Address, key: str) -> openai.AsyncOpenAI:
    """A client that neither retries, follows redirects nor has time limits: the caller does."""
    for name in _ADDRESS_LOGGERS if address.query else ():  # Some put a key there.
        logging.getLogger(name).setLevel(logging.WARNING)
    headers = {"Accept-Encoding": "identity"}
    if address.authorization:
        headers["Authorization"] = address.authorization
    return openai.AsyncOpenAI(
        base_url=address.url,
        api_key=key or _NO_KEY,
        max_retries=0,
        timeout=None,
        default_headers=headers,
        default_query=address.query,
        http_client=openai.DefaultAsyncHttpxClient(
            follow_redirects=False, event_hooks={"response": [_read_refusal]}
        ),
    )


async def _read_refusal(response: Any) -> None:
    """Read what is no completion here, because the client reads it without a bound."""
    if response.is_success:
        return
    try:
        body = await _bounded(response.aiter_bytes())
    except _Refusal:
        body = b""
    if response.is_redirect:
        target = Endpoint(response.headers.get("location") or "nowhere").shown_url
        body = f"redirected to {target}; set base_url to where the API is".encode()
    raise _Refusal(Answer(response.status_code, body, _retry_after_secs(response.headers)))


async def _bounded(pieces: AsyncIterator[bytes]) -> bytes:
    body = bytearray()
    async for piece in pieces:
        body += piece
        if len(body) > MOST_BYTES:
            raise _Refusal(Answer(200, fault=f"an answer of more than {MOST_BYTES >> 10} KiB"))
    return bytes(body)


def _retry_after_secs(headers: Mapping[str, str]) -> float | None:
    for name, per_sec in (("retry-after-ms", 1e3), ("retry-after", 1.0)):
        try:
            return max(0.0, float(headers[name]) / per_sec)
        except (KeyError, ValueError):
            continue
    date = email.utils.parsedate_tz(headers.get("retry-after", ""))
    return None if date is None else max(0.0, email.utils.mktime_tz(date) - time.time())


def _broken(error: Exception) -> Answer:
    causes = _causes(error)
    reason = next((each for each in reversed(causes) if isinstance(each, OSError)), causes[-1])
    text = str(reason) or type(reason).__name__
    if isinstance(reason, ConnectionError) and reason.errno:
        text = os.strerror(reason.errno)
    if any(type(each).__name__ in _UNREACHABLE for each in causes) or not _is_sent(causes):
        return Answer(fault=f"cannot connect: {text}", was_sent=False)
    return Answer(fault=f"connection lost: {text}")


def _is_sent(causes: list[BaseException]) -> bool:
    """A malformed address or key fails while the request is made, as a ValueError or alike."""
    return not isinstance(causes[0], (TypeError, ValueError))


def _causes(error: BaseException | None) -> list[BaseException]:
    """An error and what it comes from, the root last."""
    causes: list[BaseException] = []
    while error is not None and error not in causes:
        causes.append(error)
        inner = getattr(error, "exceptions", None)  # An ExceptionGroup, one for each address tried.
        error = inner[0] if inner else error.__cause__ or error.__context__
    return causes
