# SPDX-License-Identifier: Apache-2.0
"""One tuning a work_dir, and no Ctrl-C halfway through an outcome."""

from __future__ import annotations

import fcntl
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TextIO

from kope_tvm.errors import WorkDirError


def locked(work_dir: Path) -> TextIO:
    """Make a work_dir this process's own until the file is closed.

    Raises WorkDirError where it is another's, or cannot be written.
    """
    try:
        work_dir.mkdir(parents=True, exist_ok=True)
        handle = (work_dir / ".lock").open("a")
    except OSError as error:
        raise WorkDirError(
            f"work_dir {str(work_dir)!r}: {error.strerror}; expected a folder that can be written; "
            "give another --work-dir"
        ) from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        handle.close()
        raise WorkDirError(
            f"work_dir {str(work_dir)!r} is in use by another tuning; "
            "wait for it, or give another --work-dir"
        ) from None
    return handle


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Let Ctrl-C wait, that an outcome is kept in all places or none."""
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    waiting: list[FrameType | None] = []
    signal.signal(signal.SIGINT, lambda _, frame: waiting.append(frame))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if waiting:
            handler(signal.SIGINT, waiting[0])
