# SPDX-License-Identifier: Apache-2.0
"""What TVM raises for a schedule that it cannot make, cut to what was wrong."""

from __future__ import annotations

import re

import tvm

TVM_ERRORS = (tvm.error.InternalError, RuntimeError, ValueError, TypeError, IndexError, KeyError)
"""What TVM raises for a schedule it cannot make; `ScheduleError` is a RuntimeError here."""


def first_line(error: BaseException, *, limit: int = 200) -> str:
    """What a TVM error says was wrong, led by the schedule primitive that said it."""
    text = str(error)
    message = re.search(r"^Error message: (.+)$", text, re.MULTILINE)
    if message is None:
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        return (lines or [type(error).__name__])[0][:limit]
    primitive = re.search(r"schedule primitive '([\w-]+)'", text)
    return f"{primitive[1] + ': ' if primitive else ''}{message[1]}"[:limit]
