# SPDX-License-Identifier: Apache-2.0
"""A local HTTP server that answers chat completions, each in the way that a test wants."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

GOOD = '{"proposals": [], "stop": false}'

Behaviour = Callable[["Handler", dict[str, Any]], None]
"""Answers one request, whose body it is given."""


class MisbehavingServer:
    """Behaves in the given ways in turn, and in the last one ever after."""

    def __init__(self, *behaviours: Behaviour) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[Message] = []
        self.paths: list[str] = []
        self.most_in_flight = 0
        self.is_over = threading.Event()
        self._in_flight = 0
        self._behaviours = list(behaviours)
        self._lock = threading.Lock()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self._http.block_on_close = False
        self._http.handle_error = lambda *_: None  # type: ignore[method-assign]
        self._http.owner = self  # type: ignore[attr-defined]
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)

    @property
    def port(self) -> int:
        return int(self._http.server_address[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def behave(self, *behaviours: Behaviour) -> None:
        """Behave so from now on."""
        with self._lock:
            self._behaviours = list(behaviours)

    def answer(self, handler: Handler, body: dict[str, Any]) -> None:
        """Take note of a request and behave in the way whose turn it is."""
        with self._lock:
            self.bodies.append(body)
            self.headers.append(handler.headers)
            self.paths.append(handler.path)
            self._in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self._in_flight)
            behaviour = self._behaviours[0]
            self._behaviours = self._behaviours[1:] or [behaviour]
        try:
            behaviour(handler, body)
        finally:
            with self._lock:
                self._in_flight -= 1

    def __enter__(self) -> MisbehavingServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.is_over.set()
        self._http.shutdown()
        self._http.server_close()


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"

    @property
    def owner(self) -> MisbehavingServer:
        return self.server.owner  # type: ignore[attr-defined, no-any-return]

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        self.owner.answer(self, json.loads(self.rfile.read(length)))

    def log_message(self, format: str, *args: object) -> None:
        pass

    def send(self, status: int, data: bytes, **headers: str) -> None:
        """A whole answer."""
        self.start(status, len(data), **headers)
        self.wfile.write(data)

    def start(self, status: int, num_bytes: int, **headers: str) -> None:
        """The head of an answer."""
        self.send_response(status)
        headers = {"Content_Type": "application/json", **headers}
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(num_bytes))
        self.end_headers()


def completion(content: Any = GOOD, finish: str = "stop", **message: Any) -> dict[str, Any]:
    """A completion whose use of tokens is 100 and 20."""
    return {
        "object": "chat.completion",
        "choices": [
            {
                "index": 0,
                "finish_reason": finish,
                "message": {"role": "assistant", "content": content, **message},
            }
        ],
        "usage": {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120},
    }


def says(data: Any, status: int = 200, **headers: str) -> Behaviour:
    """Answers with JSON."""
    return sends(json.dumps(data).encode(), status, **headers)


def sends(data: bytes, status: int = 200, **headers: str) -> Behaviour:
    """Answers with bytes."""
    return lambda handler, body: handler.send(status, data, **headers)


def fails(status: int, message: str = "", **headers: str) -> Behaviour:
    """Answers with an error as OpenAI words it."""
    return says({"error": {"message": message}}, status, **headers)


def answers_after(secs: float, behaviour: Behaviour) -> Behaviour:
    """Takes its time."""

    def answer(handler: Handler, body: dict[str, Any]) -> None:
        if not handler.owner.is_over.wait(secs):
            behaviour(handler, body)

    return answer


def never_answers(handler: Handler, body: dict[str, Any]) -> None:
    """Accepts and is silent."""
    handler.owner.is_over.wait(60)
    handler.close_connection = True


def drips(handler: Handler, body: dict[str, Any]) -> None:
    """Sends a byte now and then, and always in time for who waits for the next one."""
    handler.start(200, 10_000)
    for _ in range(10_000):
        handler.wfile.write(b" ")
        if handler.owner.is_over.wait(0.05):
            break


def closes_midway(handler: Handler, body: dict[str, Any]) -> None:
    """Breaks off in the middle of an answer."""
    data = json.dumps(completion()).encode()
    handler.start(200, len(data))
    handler.wfile.write(data[: len(data) // 2])
    handler.wfile.flush()
    handler.connection.close()
    handler.close_connection = True


def closes_at_once(handler: Handler, body: dict[str, Any]) -> None:
    """Hangs up without a word."""
    handler.connection.close()
    handler.close_connection = True


def floods(status: int) -> Behaviour:
    """Never comes to an end."""

    def flood(handler: Handler, body: dict[str, Any]) -> None:
        handler.send_response(status)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Connection", "close")
        handler.end_headers()
        handler.close_connection = True
        ends_at = time.monotonic() + 10
        while time.monotonic() < ends_at and not handler.owner.is_over.is_set():
            handler.wfile.write(b" " * 65536)

    return flood


def takes(*modes: str, refusal: Behaviour, otherwise: Behaviour | None = None) -> Behaviour:
    """Answers well in some modes and with a refusal in others."""

    def answer(handler: Handler, body: dict[str, Any]) -> None:
        chosen = (otherwise or says(completion())) if mode_of(body) in modes else refusal
        chosen(handler, body)

    return answer


def mode_of(body: Mapping[str, Any]) -> str:
    """How a request asks for JSON."""
    if "grammar" in body:
        return "grammar"
    return str(body.get("response_format", {}).get("type", "text"))
