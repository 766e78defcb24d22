# SPDX-License-Identifier: Apache-2.0
"""Reading a chat completion that may be anything."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from kope_tvm.chat.dialogue import Usage

_LINE_CHARS = 160


@dataclass(frozen=True)
class Completion:
    """What a body says."""

    text: str = field(default="", repr=False)
    error: str = ""
    """Why the text is missing or not whole."""
    usage: Usage | None = None
    """None where the server did not say."""
    status: int = 200
    """What the status should have been: some servers send errors as 200."""
    is_garbled: bool = False
    """Not a chat completion at all."""


def read_completion(body: bytes, max_output_tokens: int) -> Completion:
    """The first choice of a completion."""
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        text = one_line(body.decode(errors="replace"), 60)
        return Completion(error=f"not JSON: {text}", is_garbled=True)
    if not isinstance(data, dict):
        return Completion(error=f"a JSON {type(data).__name__}, no completion", is_garbled=True)
    if data.get("error") and not data.get("choices"):
        return _failed(data["error"])
    usage = _usage(data.get("usage"))
    choices = data.get("choices")
    if not (isinstance(choices, list) and choices and isinstance(choices[0], dict)):
        return Completion(error="no choices", usage=usage, is_garbled=True)
    text, error = _said(choices[0], max_output_tokens)
    return Completion(text, error, usage)


def error_text(body: bytes) -> str:
    """What a body that is no completion says went wrong, in one line."""
    text = body.decode(errors="replace")
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return one_line(text)
    return one_line(_message(data))


def one_line(text: str, most: int = _LINE_CHARS) -> str:
    """A text that moves no cursor, cut."""
    seen = text[: 16 * most]  # A body may be a megabyte.
    line = " ".join("".join(char if char.isprintable() else " " for char in seen).split())
    return line if len(line) <= most else line[: most - 1] + "…"


def _message(data: Any) -> str:
    """The innermost `message`, `error` or `detail`."""
    for name in ("error", "message", "detail"):
        if isinstance(data, dict) and data.get(name):
            return _message(data[name])
    return data if isinstance(data, str) else json.dumps(data)


def _failed(error: Any) -> Completion:
    code = error.get("code") if isinstance(error, dict) else None
    status = code if isinstance(code, int) and 400 <= code < 600 else 500
    return Completion(error=one_line(_message(error)), status=status)


def _said(choice: dict[str, Any], max_output_tokens: int) -> tuple[str, str]:
    message = choice.get("message")
    message = message if isinstance(message, dict) else {}
    finish = choice.get("finish_reason")
    text = _content(message.get("content"))
    if refusal := message.get("refusal"):
        return text, f"refused: {one_line(str(refusal))}"
    if finish == "content_filter":
        return text, "stopped by the content filter"
    if finish == "length":
        return text, f"truncated at {max_output_tokens} tokens"
    if text.strip():
        return text, ""
    return "", _why_empty(message)


def _why_empty(message: dict[str, Any]) -> str:
    if message.get("tool_calls") or message.get("function_call"):
        return "called a tool instead of answering"
    if message.get("reasoning_content") or message.get("reasoning"):
        return "reasoning without an answer"
    return "empty reply"


def _content(content: Any) -> str:
    """Text, be it whole or in parts; half a surrogate pair becomes a question mark."""
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        content = "".join(part for part in parts if isinstance(part, str))
    return content.encode(errors="replace").decode() if isinstance(content, str) else ""


def _usage(data: Any) -> Usage | None:
    if not isinstance(data, dict):
        return None
    prompt, completion = (_count(data.get(f"{kind}_tokens")) for kind in ("prompt", "completion"))
    return None if prompt is None or completion is None else Usage(prompt, completion)


def _count(value: Any) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
        value = int(value)
    return value if type(value) is int and value >= 0 else None
