# SPDX-License-Identifier: Apache-2.0
"""Seconds spent on one kind of thing."""

from __future__ import annotations

import time
from types import TracebackType


class Stopwatch:
    """Runs within `with`; adds up."""

    def __init__(self) -> None:
        self.secs = 0.0
        self._began = 0.0

    def __enter__(self) -> Stopwatch:
        self._began = time.perf_counter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.secs += time.perf_counter() - self._began
