# SPDX-License-Identifier: Apache-2.0
"""A function so plain that only a sick device gets it wrong: asked after each failure on a GPU."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import lru_cache

from kope_tvm.errors import KopeError

LENGTH = 1 << 16
SUSPECTS = frozenset({"E_CRASH", "E_TIMEOUT"})
"""Failures after which the device may be sick: it was stopped, or stopped by itself."""
PATIENCE_SECS = (0.0, 1.0, 5.0)
"""A driver may need a moment to clean up behind a process that was killed."""


@lru_cache(maxsize=1)
def plain_module() -> bytes:
    """One more than each of `LENGTH` numbers, unscheduled, as JSON."""
    import tvm
    from tvm import te

    numbers = te.placeholder((LENGTH,), "float32", "numbers")
    more = te.compute((LENGTH,), lambda at: numbers[at] + 1.0, "more")
    func = te.create_prim_func([numbers, more])
    return str(tvm.ir.save_json(tvm.IRModule({"main": func}))).encode()


def wait_for(is_well: Callable[[], bool], target_name: str) -> None:
    """Return when the device computes what it should; raises KopeError where it no longer does."""
    for secs in PATIENCE_SECS:
        time.sleep(secs)
        if is_well():
            return
    raise KopeError(
        f"target {target_name!r}: after a candidate that crashed, its device gets even x + 1 "
        "wrong; look at nvidia-smi and the kernel's log, then run the same command again"
    )
