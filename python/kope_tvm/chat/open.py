# SPDX-License-Identifier: Apache-2.0
"""Who a run talks with: a live model, stored exchanges, or nobody."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from kope_tvm.chat.budget import Budget, Limits, checked_limits
from kope_tvm.chat.dialogue import Dialogue
from kope_tvm.chat.exchanges import EXCHANGES, Exchanges, read_exchanges
from kope_tvm.chat.reachable import unreachable
from kope_tvm.chat.replayed import ReplayDialogue
from kope_tvm.config import Endpoint
from kope_tvm.errors import UsageError

__all__ = ["Limits", "check_dialogue", "open_dialogue"]

_WITH_MODEL = frozenset({"auto", "chat"})


def open_dialogue(
    proposer: str,
    endpoint: Endpoint,
    limits: Limits,
    exchanges_in: Path | None,
    work_dir: Path,
    home: Path,
    say: Callable[[str], None] = lambda line: None,
) -> Dialogue | None:
    """The dialogue of a run, None where none is wanted or to be had; writes nothing yet.

    `say` hears the line that tells the user which it is. Raises UsageError as `check_dialogue`
    does.
    """
    check_dialogue(proposer, endpoint, limits, exchanges_in)
    if exchanges_in is not None:
        say(f"answering from {exchanges_in}; no model is asked")
        return ReplayDialogue(exchanges_in)
    if proposer not in _WITH_MODEL:
        return None
    if why := _why_alone(proposer, endpoint):
        say(f"proposing from experience alone: {why}")
        return None
    say(f"asking {endpoint.model} at {endpoint.host}")
    return _live(endpoint, limits, work_dir, home)


def check_dialogue(
    proposer: str, endpoint: Endpoint, limits: Limits, exchanges_in: Path | None
) -> None:
    """Raises UsageError where what was asked for cannot be: it says what is missing."""
    if proposer == "replay" and exchanges_in is None:
        raise UsageError(
            f"--proposer replay: give the record to answer from with --exchanges, e.g. "
            f"--exchanges WORK_DIR/{EXCHANGES}"
        )
    if proposer != "replay" and exchanges_in is not None:
        raise UsageError(f"--exchanges is for --proposer replay; the proposer is {proposer!r}")
    if exchanges_in is not None:
        read_exchanges(exchanges_in)
    if proposer == "chat" and not endpoint.is_set:
        raise UsageError(
            f"--proposer chat: no endpoint is set; set {' and '.join(endpoint.missing)}, or "
            "base_url and model in kope.toml; --proposer auto goes on without one"
        )
    if proposer in _WITH_MODEL and endpoint.is_set:
        checked_limits(limits, endpoint.price)


def _why_alone(proposer: str, endpoint: Endpoint) -> str:
    """Why no model is asked; a run that insists on one finds out as it goes."""
    if not endpoint.is_set:
        return "no endpoint is set"
    if proposer == "chat":
        return ""
    fault = unreachable(endpoint, os.environ.get(endpoint.api_key_env, ""))
    return f"{endpoint.host}: {fault}" if fault else ""


def _live(endpoint: Endpoint, limits: Limits, work_dir: Path, home: Path) -> Dialogue:
    from kope_tvm.chat.live import LiveDialogue

    budget = Budget(limits.max_tokens, limits.max_usd, limits.max_calls, endpoint.price)
    exchanges = Exchanges(work_dir / EXCHANGES, endpoint.api_key_env)
    key = os.environ.get(endpoint.api_key_env, "")
    return LiveDialogue(endpoint, key, budget, exchanges, home, endpoint.max_in_flight)
