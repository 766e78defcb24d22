# SPDX-License-Identifier: Apache-2.0
"""A quick `inspect.stack`, for the length of what parses much TVMScript."""

from __future__ import annotations

import contextlib
import inspect
import sys
from collections.abc import Iterator
from types import FrameType


@contextlib.contextmanager
def quick_stack() -> Iterator[None]:
    """Replace `inspect.stack` by one that does not look for source lines."""
    original = inspect.stack
    inspect.stack = _stack
    try:
        yield
    finally:
        inspect.stack = original


def _stack(context: int = 1) -> list[inspect.FrameInfo]:
    frames: list[inspect.FrameInfo] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        frames.append(
            inspect.FrameInfo(frame, code.co_filename, frame.f_lineno, code.co_name, None, None)
        )
        frame = frame.f_back
    return frames
