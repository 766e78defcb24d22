# SPDX-License-Identifier: Apache-2.0
"""Finds the JSON object in what a model wrote: strictly first, then by mending it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import json_repair

MAX_CHARS = 1 << 16
"""Of a reply that is looked at; a reply of 600 tokens has 3000."""
_MAX_MENDED_CHARS = 1 << 13
_MAX_DEPTH = 48
_LIST_DEPTH = 2
"""Of the list of proposals: what is open beyond it is one of them."""
_THOUGHT_TAGS = ("think", "thinking", "reasoning")
_OPENING = re.compile(r"\{\s*[\"']proposals[\"']")
_FENCE = re.compile(r"```[\w-]*\n?(.*?)(?:```|\Z)", re.DOTALL)


@dataclass(frozen=True)
class Found:
    """What a text holds."""

    value: Any
    """An object or a list."""
    is_cut: bool = False
    """The text ends within one of the objects in its list."""


class UnreadableError(ValueError):
    """There is no JSON in the text, or none that is worth the trouble."""


def parsed(text: str) -> Found:
    """The object or list in a reply; raises UnreadableError with the reason.

    Looks past thoughts, fences and prose; mends trailing commas, quotes and a cut end.
    """
    text = _without_thoughts(text[:MAX_CHARS]).strip()
    if not text:
        raise UnreadableError("empty reply")
    if _depth(text) > _MAX_DEPTH:
        raise UnreadableError(f"brackets nested deeper than {_MAX_DEPTH}")
    for candidate in _candidates(text):
        found = _strict(candidate)
        if found is not None:
            return Found(found)
    return _mended(text)


def _without_thoughts(text: str) -> str:
    """What follows the last thought, or goes before it where nothing follows."""
    for tag in _THOUGHT_TAGS:
        before, found, after = text.rpartition(f"</{tag}>")
        if found:
            text = after if "{" in after or "[" in after else before
    return text


def _start(text: str) -> int:
    """Where the object that is asked for begins, else the first bracket; -1 where there is none."""
    openings = [found.start() for found in _OPENING.finditer(text)]
    brackets = [at for at in (text.find("{"), text.find("[")) if at >= 0]
    return max(openings, default=min(brackets, default=-1))


def _candidates(text: str) -> list[str]:
    fenced = [found[1].strip() for found in _FENCE.finditer(text)]
    return [text, *fenced, *(_embedded(text))]


def _embedded(text: str) -> list[str]:
    """From the first bracket to the last of its kind."""
    start = _start(text)
    if start < 0:
        return []
    end = text.rfind("}" if text[start] == "{" else "]")
    return [text[start : end + 1]]


def _strict(text: str) -> Any:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict | list) else None


def _mended(text: str) -> Found:
    start = _start(text)
    if start < 0:
        raise UnreadableError("no JSON object in the reply")
    try:
        piece = text[start : start + _MAX_MENDED_CHARS]
        found = json_repair.loads(piece, skip_json_loads=True)
    except (ValueError, RecursionError, IndexError, TypeError, KeyError) as error:
        raise UnreadableError(f"no JSON object in the reply: {type(error).__name__}") from error
    if not isinstance(found, dict | list) or not found:
        raise UnreadableError("no JSON object in the reply")
    return Found(found, _open_at_end(piece) > _LIST_DEPTH)


def _open_at_end(text: str) -> int:
    """Brackets that are still open where the text ends."""
    depth = 0
    for found in re.finditer(r'"(?:[^"\\]|\\.)*(?:"|\Z)|[\[{\]}]', text, re.DOTALL):
        if found[0] in "[{":
            depth += 1
        elif found[0] in "]}":
            depth -= 1
    return depth


def _depth(text: str) -> int:
    """The deepest nesting of brackets, quotes ignored: an upper bound."""
    deepest = depth = 0
    for found in re.finditer(r"[\[{\]}]", text):
        depth = depth + 1 if found[0] in "[{" else max(depth - 1, 0)
        deepest = max(deepest, depth)
    return deepest
