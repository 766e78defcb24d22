# SPDX-License-Identifier: Apache-2.0
"""What was asked and answered, on record: one JSON line an event, only ever appended."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, is_dataclass, replace
from pathlib import Path
from threading import Lock
from typing import Any

from kope_tvm.chat.dialogue import Outcome, Reply, Request, Usage
from kope_tvm.chat.redaction import without_secrets
from kope_tvm.errors import StorageError, UsageError

EXCHANGES = "exchanges.jsonl"
"""The file's name in a work_dir."""


@dataclass(frozen=True)
class Exchange:
    """One call on record, and what became of its proposals as far as it is known."""

    request: Request
    reply: Reply
    outcomes: tuple[Outcome, ...] = ()

    @property
    def key(self) -> tuple[str, str, str]:
        return key_of(self.request)


def key_of(request: Request) -> tuple[str, str, str]:
    """What tells a request from all others of a run."""
    return request.task_key, request.purpose, request.subject


class Exchanges:
    """The record of a run; a line is on the disk when its method returns."""

    def __init__(
        self,
        path: Path,
        api_key_env: str = "OPENAI_API_KEY",
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        """Write nothing before the first call; `api_key_env` names whose value is never written."""
        self.path = path
        self._api_key_env = api_key_env
        self._environment = environment
        self._lock = Lock()
        self._is_whole = False

    def answered(self, request: Request, reply: Reply) -> None:
        """Put a call on record; raises StorageError where the disk does not take it."""
        self._append({"event": "answered", "request": request, "reply": reply})

    def noted(self, request: Request, outcomes: Sequence[Outcome]) -> None:
        """Put on record what became of proposals; raises StorageError as `answered` does."""
        task_key, purpose, subject = key_of(request)
        about = {"task_key": task_key, "purpose": purpose, "subject": subject}
        self._append({"event": "noted", "request": about, "outcomes": outcomes})

    def _append(self, event: Mapping[str, Any]) -> None:
        key = self._environment.get(self._api_key_env, "")
        line = json.dumps(_scrubbed(event, key), sort_keys=True) + "\n"
        with self._lock:
            try:
                if not self._is_whole:  # Only now is the work_dir known to be this run's alone.
                    _cut_torn_line(self.path)
                    self._is_whole = True
                _append_line(self.path, line.encode())
            except OSError as error:
                raise StorageError(
                    f"{self.path}: a call could not be put on record: {error.strerror or error}"
                ) from error


def read_exchanges(path: Path) -> tuple[Exchange, ...]:
    """All calls on record, in the order of their answers.

    Raises UsageError with file and line for what is not such a record. A last line without its end
    is left out.
    """
    if not path.is_file():
        raise UsageError(f"{path}: no exchanges can be read: no such file")
    try:
        lines = path.read_bytes().splitlines(keepends=True)
    except OSError as error:
        raise UsageError(f"{path}: no exchanges can be read: {error.strerror or error}") from error
    if lines and not lines[-1].endswith(b"\n") and not _is_json(lines[-1]):
        lines.pop()
    found: list[Exchange] = []
    latest: dict[tuple[str, str, str], int] = {}
    for number, line in enumerate(lines, 1):
        try:
            _take(json.loads(line), found, latest)
        except (ArithmeticError, ValueError, KeyError, TypeError, RecursionError) as error:
            what = f"no {error}" if isinstance(error, KeyError) else str(error)
            raise UsageError(f"{path}:{number}: not an exchange on record: {what}") from error
    return tuple(found)


def _take(
    event: Mapping[str, Any], found: list[Exchange], latest: dict[tuple[str, str, str], int]
) -> None:
    if event["event"] == "answered":
        exchange = Exchange(_request(event["request"]), _reply(event["reply"]))
        latest[exchange.key] = len(found)
        found.append(exchange)
    elif event["event"] == "noted":
        about = event["request"]
        key = (about["task_key"], about["purpose"], about["subject"])
        fresh = [Outcome(**each) for each in event["outcomes"]]
        if key in latest:  # A full disk may have taken the outcomes and not the call.
            old = found[latest[key]]
            found[latest[key]] = replace(old, outcomes=_merged(old.outcomes, fresh))
    else:
        raise ValueError(f"event {event['event']!r}; expected 'answered' or 'noted'")


def _merged(old: Sequence[Outcome], fresh: Sequence[Outcome]) -> tuple[Outcome, ...]:
    """A proposal's later outcome stands in the place of its former one."""
    by_text = {(each.lane, each.space, each.text): each for each in (*old, *fresh)}
    return tuple(by_text.values())


def _request(data: Mapping[str, Any]) -> Request:
    for name in ("task_key", "purpose", "subject", "system", "prompt"):
        _expect(data[name], str, name)
    _expect(data["max_output_tokens"], int, "max_output_tokens")
    _expect(data["schema"], dict, "schema")
    _expect_texts(data["states"], "states")
    return Request(**data)


def _reply(data: Mapping[str, Any]) -> Reply:
    for name in ("text", "mode", "error"):
        _expect(data[name], str, name)
    if data.get("states") is not None:
        _expect_texts(data["states"], "states")
    usage = Usage(**data["usage"])
    for name in ("prompt_tokens", "completion_tokens"):
        _expect(getattr(usage, name), int, name)
    return replace(Reply(**data), usage=usage, latency_secs=float(data["latency_secs"]))


def _expect_texts(value: object, name: str) -> None:
    _expect(value, dict, name)
    if isinstance(value, dict):
        for key, text in value.items():
            _expect(text, str, f"{name}[{key!r}]")


def _expect(value: object, kind: type, name: str) -> None:
    if type(value) is not kind:
        raise ValueError(f"{name} is a {type(value).__name__}; expected {kind.__name__}")


def _scrubbed(value: Any, key: str) -> Any:
    """What JSON knows, secrets out."""
    if is_dataclass(value):
        value = vars(value)
    if isinstance(value, str):
        return without_secrets(value, key)
    if isinstance(value, Mapping):
        return {_scrubbed(name, key): _scrubbed(each, key) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_scrubbed(each, key) for each in value]
    return value


def _append_line(path: Path, line: bytes) -> None:
    """Append the whole line or nothing, and wait for the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab", buffering=0) as file:
        before = file.seek(0, os.SEEK_END)
        try:
            if file.write(line) != len(line):
                raise OSError("the disk took a part of it only")
            os.fsync(file.fileno())
        except OSError:
            with suppress(OSError):
                file.truncate(before)
            raise


def _cut_torn_line(path: Path) -> None:
    """Cut off a line that a killed writer left half written."""
    data = path.read_bytes() if path.is_file() else b""
    whole = data.rfind(b"\n") + 1
    if whole == len(data):
        return
    if _is_json(data[whole:]):
        _append_line(path, b"\n")
    else:
        os.truncate(path, whole)


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True
