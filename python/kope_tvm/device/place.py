# SPDX-License-Identifier: Apache-2.0
"""Where a board is met: a tracker's address, and the key that its servers have there."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from kope_tvm.errors import UsageError
from kope_tvm.target import TargetSpec

HOST, PORT, KEY = "TVM_TRACKER_HOST", "TVM_TRACKER_PORT", "TVM_TRACKER_KEY"
"""TVM's own variables."""


@dataclass(frozen=True)
class Place:
    """One kind of board at one tracker."""

    host: str
    port: int
    key: str

    @property
    def tracker(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def exports(self) -> str:
        """What a shell is told, for stock MetaSchedule and for kope."""
        return f"export {HOST}={self.host} {PORT}={self.port} {KEY}={self.key}"

    def __str__(self) -> str:
        return f"board {self.key} at {self.tracker}"


def parse_tracker(text: str) -> tuple[str, int]:
    """The two parts of `HOST:PORT`; UsageError where it is not that."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit():
        raise UsageError(f"tracker {text!r}: expected HOST:PORT, e.g. 192.168.1.2:9190")
    return host, int(port)


def place_of(
    spec: TargetSpec, tracker: str = "", environment: Mapping[str, str] = os.environ
) -> Place | None:
    """Where to ask for this target's boards; None where nobody said a tracker.

    The key is the target's own: a variable may name another only where the target has none.
    """
    host, port = environment.get(HOST, ""), environment.get(PORT, "")
    text = tracker or (f"{host}:{port}" if host and port else "")
    if not text:
        return None
    return Place(*parse_tracker(text), spec.rpc_key or environment.get(KEY, ""))
