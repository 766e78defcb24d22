# SPDX-License-Identifier: Apache-2.0
"""A fork that measures what its parent has built."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1
"""Linux's `prctl`: the signal that a process gets when its parent has gone."""
_LIBC = ctypes.CDLL(None)


def is_forked() -> bool:
    """True in the fork; False in its parent, once the fork has ended well.

    The parent ends as a fork did that ended otherwise. It has one thread: compiling takes no more,
    and TVM's pool starts with the first parallel call.
    """
    parent, pid = os.getpid(), os.fork()
    if pid == 0:
        end_with(parent)
        return True
    _, status = os.waitpid(pid, 0)
    _end_like(os.waitstatus_to_exitcode(status))
    return False


def end_with(parent: int) -> None:
    """Have this process killed when its parent ends, which it may have done already."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _end_like(code: int) -> None:
    if code < 0:
        with contextlib.suppress(OSError):  # SIGKILL has no handler to take away.
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    if code:
        os._exit(code)
