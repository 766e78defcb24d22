# SPDX-License-Identifier: Apache-2.0
"""Requests of a dialogue with a misbehaving server, and what is known of it beforehand."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

from kope_tvm.chat.dialogue import Reply, Request
from kope_tvm.chat.live import LiveDialogue
from kope_tvm.chat.modes import ENDPOINTS

Open = Callable[..., LiveDialogue]
"""Opens a dialogue with an address: `deadline_secs`, `budget` and `key` may be given."""

KEY = "sk-kope-0123456789-secret"
SCHEMA = {
    "type": "object",
    "properties": {
        "proposals": {"type": "array", "items": {"type": "string"}},
        "stop": {"type": "boolean"},
    },
    "required": ["proposals", "stop"],
    "additionalProperties": False,
}


def request(subject: str = "1", max_output_tokens: int = 600) -> Request:
    return Request(
        "task",
        "propose",
        subject,
        "You write schedules.",
        "Propose one.",
        SCHEMA,
        max_output_tokens=max_output_tokens,
    )


def told(dialogue: LiveDialogue, subject: str = "1") -> Reply:
    return dialogue.ask(request(subject)).result(timeout=30)


def settle(home: Path, url: str, mode: str = "json_schema") -> None:
    """Let a mode be known already, as in a second run."""
    home.mkdir(exist_ok=True)
    known = {f"{url} m": {"mode": mode, "limit": "max_tokens", "found": "2999-01-01"}}
    (home / ENDPOINTS).write_text(json.dumps(known))


def wait_for(happened: Callable[[], bool], secs: float = 10) -> None:
    ends_at = time.monotonic() + secs
    while not happened():
        assert time.monotonic() < ends_at
        time.sleep(0.01)
