# SPDX-License-Identifier: Apache-2.0
"""Which cores the calling thread may run on, where TVM's thread pool is bound to them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def off_the_workers_cores() -> Iterator[None]:
    """TVM binds its workers, not the caller: on a worker's core both would wait for each other.

    After the first call: TVM counts the cores it may use when it starts its workers.
    """
    with same_cores_afterwards():
        stay_off_the_workers_cores()
        yield


def stay_off_the_workers_cores() -> None:
    """The same for good, in a process that times and ends."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


@contextmanager
def same_cores_afterwards() -> Iterator[None]:
    """Gives the caller its cores back, whatever bound it meanwhile."""
    cores = os.sched_getaffinity(0)
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)
