# SPDX-License-Identifier: Apache-2.0
"""How a server is asked for JSON: the strictest way it takes, found out once and remembered."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kope_tvm.chat.dialogue import Request
from kope_tvm.chat.grammar import grammar_of

LADDER = ("json_schema", "json_object", "grammar", "text")
"""Ways of asking for JSON, the strictest first; `text` promises nothing."""

WITH_SCHEMA = frozenset({"json_schema", "json_object"})
"""Modes in which a server may put the schema before the model, and count its tokens."""

ENDPOINTS = "endpoints.json"
"""The file's name in the home folder."""

_LIMITS = ("max_tokens", "max_completion_tokens")
"""Names of the limit on output; OpenAI's newer models take the second one only."""

_MOST_STRIKES = 2
_GOOD_FOR_DAYS = 30

_BLAMED = frozenset({400, 415, 422, 500, 501})
_OF_MODE = re.compile(
    r"(?i)response.?format|json.?(schema|object|mode)|schema|grammar|support|param|unrecognized"
)
_OF_ANOTHER_CAUSE = re.compile(
    r"(?i)context (length|window|size)|too (long|large|many tokens)|exceed|quota|billing|credit"
    r"|api.?key|model\b.*\b(not found|not exist|unknown)"
)


class Modes:
    """What one model of one endpoint takes."""

    def __init__(self, home: Path, endpoint: str, model: str) -> None:
        """Start from what `home` knows; `endpoint` is an address without user and password."""
        self._path = home / ENDPOINTS
        self._name = f"{endpoint} {model}"
        self._top = 0
        self._strikes = 0
        self.limit_name = _LIMITS[0]
        self.is_settled = False
        self._recall()

    @property
    def mode(self) -> str:
        """The way of asking that holds, or is tried first."""
        return LADDER[self._top]

    def rungs(self) -> Iterator[str]:
        """Modes to try in turn, each only if the server did not take the one before."""
        yield self.mode
        if not self.is_settled:
            yield from LADDER[self._top + 1 :]

    def worked(self, mode: str) -> None:
        """A reply was JSON, or all that can be had."""
        self._strikes = 0
        if not self.is_settled or mode != self.mode:
            self._top = LADDER.index(mode)
            self.is_settled = True
            self._remember()

    def missed(self, mode: str) -> None:
        """The server did not take a mode; one that held is left at the second time."""
        if self.is_settled and mode == self.mode:
            self._strikes += 1
            if self._strikes >= _MOST_STRIKES:
                self.is_settled = False
                self._strikes = 0

    def turned(self, error: str) -> bool:
        """Whether an error asks for the other name of the limit, which is then used from now on."""
        if self.limit_name == _LIMITS[0] and _LIMITS[1] in error:
            self.limit_name = _LIMITS[1]
            return True
        return False

    def options(self, request: Request, mode: str) -> dict[str, Any]:
        """The fields of a request's body that ask for its limit and for JSON."""
        return {self.limit_name: request.max_output_tokens, **_asked_for(request.schema, mode)}

    def _recall(self) -> None:
        known = _read(self._path).get(self._name)
        if not isinstance(known, dict) or known.get("mode") not in LADDER:
            return
        self.limit_name = known["limit"] if known.get("limit") in _LIMITS else _LIMITS[0]
        if known["mode"] == LADDER[0] or _is_fresh(known.get("found")):
            self._top = LADDER.index(known["mode"])
            self.is_settled = True

    def _remember(self) -> None:
        known = _read(self._path)
        today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
        known[self._name] = {"mode": self.mode, "limit": self.limit_name, "found": today}
        fresh = self._path.with_suffix(f".{os.getpid()}")
        with contextlib.suppress(OSError):  # A home that cannot be written costs a probe each run.
            self._path.parent.mkdir(parents=True, exist_ok=True)
            fresh.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", encoding="utf-8")
            fresh.replace(self._path)


def is_blamed(mode: str, status: int, error: str) -> bool:
    """Whether an HTTP error may come from how JSON was asked for."""
    if mode == LADDER[-1]:
        return False
    if _OF_MODE.search(error):
        return status in _BLAMED or status == 404
    return status in _BLAMED and not _OF_ANOTHER_CAUSE.search(error)


def is_kept(mode: str, text: str) -> bool:
    """Whether a reply keeps what its mode promises, Markdown and words around it aside."""
    if mode == LADDER[-1]:
        return True
    start, end = text.find("{"), text.rfind("}") + 1
    try:
        return isinstance(json.loads(text[start:end]), dict)
    except (ValueError, RecursionError):
        return False


def schema_text(schema: Mapping[str, Any]) -> str:
    """A schema as it is sent."""
    return json.dumps(schema, separators=(",", ":"))


def _asked_for(schema: Mapping[str, Any], mode: str) -> dict[str, Any]:
    if mode == "json_schema":
        named = {"name": "reply", "schema": schema, "strict": _is_strict(schema)}
        return {"response_format": {"type": "json_schema", "json_schema": named}}
    if mode == "json_object":
        return {"response_format": {"type": "json_object", "schema": schema}}
    if mode == "grammar":
        return {"grammar": grammar_of(schema)}
    return {}


def _is_strict(schema: Any) -> bool:
    """Whether a schema is of OpenAI's strict subset: closed objects, all properties required."""
    if isinstance(schema, list):
        return all(map(_is_strict, schema))
    if not isinstance(schema, Mapping):
        return True
    properties = schema.get("properties")
    if schema.get("type") == "object":
        names = set(properties or ())
        if schema.get("additionalProperties") is not False:
            return False
        if set(schema.get("required", ())) != names:
            return False
    inner = [value for key, value in schema.items() if key not in ("properties", "enum", "const")]
    return all(map(_is_strict, [*inner, *(properties or {}).values()]))


def _is_fresh(found: object) -> bool:
    try:
        date = datetime.date.fromisoformat(str(found))
    except ValueError:
        return False
    today = datetime.datetime.now(datetime.timezone.utc).date()
    return today - date <= datetime.timedelta(days=_GOOD_FOR_DAYS)


def _read(path: Path) -> dict[str, Any]:
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}  # Missing or damaged: it is found out anew.
    return known if isinstance(known, dict) else {}
