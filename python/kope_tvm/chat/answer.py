# SPDX-License-Identifier: Apache-2.0
"""What one HTTP request to an endpoint brought."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Answer:
    """A status and a body, or why there is none."""

    status: int = 0
    """HTTP status; 0 where none came."""
    body: bytes = b""
    retry_after_secs: float | None = None
    """How long the server wants to be left alone."""
    fault: str = ""
    """Why there is no whole answer."""
    was_sent: bool = True
    """The request may have reached a model."""
