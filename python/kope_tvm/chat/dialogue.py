# SPDX-License-Identifier: Apache-2.0
"""What is asked of a model and what comes back; who answers is somebody else's file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True)
class Request:
    """One call."""

    task_key: str
    purpose: str
    """`propose` or `repair`."""
    subject: str
    """What tells it from the task's other calls of this purpose, the same in every run: a running
    number, or `<state>:<turn>` of what is repaired.
    """
    system: str = field(repr=False)
    prompt: str = field(repr=False)
    schema: Mapping[str, Any] = field(repr=False)
    """JSON schema of the reply; ranges are spelt as enums."""
    states: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The programs that the prompt names, as JSON `{"lane", "space", "text"}`: all that is needed,
    beside the task, to read the reply.
    """
    max_output_tokens: int = 600
    dropped: Mapping[str, int] = field(default_factory=dict, repr=False)
    """Tokens that the budget kept out of the prompt, by section."""


@dataclass(frozen=True)
class Usage:
    """Tokens of one call."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    is_estimated: bool = False
    """The server did not say; estimates are never under."""

    @property
    def total(self) -> int:
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True)
class Reply:
    """What came back; `error` says why there is no text."""

    text: str = field(default="", repr=False)
    usage: Usage = Usage()
    latency_secs: float = 0.0
    mode: str = ""
    """How JSON was asked for: `json_schema`, `json_object`, `grammar`, `text` or `replay`."""
    error: str = ""
    """One line, e.g. `no answer within 60 s`, `429 after 3 tries`, `refused: ...`, `budget`."""
    states: Mapping[str, str] | None = field(default=None, repr=False)
    """The programs that the reply was written against, where they are not the request's."""


@dataclass(frozen=True)
class Outcome:
    """What became of one proposal of a reply: read, refused, or measured."""

    lane: str
    space: str
    text: str = field(repr=False)
    """`proposal_text`, or the piece of the reply that could not be read."""
    state: str = ""
    stage: str = "parsed"
    """How far it came: `reply` (unreadable), `parsed`, `legal`, `built`, `correct`, `faster`."""
    code: str = ""
    reason: str = ""
    run_secs: float = 0.0
    incumbent_secs: float = 0.0
    """The best time before it."""


@dataclass(frozen=True)
class Spent:
    """What a dialogue cost so far."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    usd: float = 0.0

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True)
class Left:
    """What a dialogue may still use; None without a limit."""

    tokens: int | None = None
    calls: int | None = None


class Dialogue(Protocol):
    """One line to a model, shared by all tasks of a run."""

    @property
    def is_open(self) -> bool:
        """Whether a call may be made now: budget left, endpoint not given up for this round."""
        ...

    @property
    def patience_secs(self) -> float:
        """How long a round may wait for replies in all; 0 once the endpoint was given up."""
        ...

    @property
    def spent(self) -> Spent: ...

    @property
    def left(self) -> Left: ...

    @property
    def notices(self) -> Sequence[str]:
        """What the user should hear, a line each."""
        ...

    def ask(self, request: Request) -> Future[Reply]:
        """Start a call and return at once; whatever goes wrong is the reply's `error`."""
        ...

    def note(self, request: Request, outcomes: Sequence[Outcome]) -> None:
        """Put on record how a reply was read, and later what became of its proposals."""
        ...

    def close(self) -> None:
        """End calls in flight."""
        ...
