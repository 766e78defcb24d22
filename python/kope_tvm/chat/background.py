# SPDX-License-Identifier: Apache-2.0
"""An event loop in a thread of its own that no end of the interpreter waits for."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor, TimeoutError
from threading import Thread
from typing import Any, TypeVar

_T = TypeVar("_T")

_STOP_SECS = 1.0


class Background:
    """Runs coroutines beside the caller."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(_DaemonThreads())
        self._thread = Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def start(self, work: Coroutine[Any, Any, _T]) -> Future[_T]:
        """Run a coroutine; to cancel the future cancels the coroutine."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def stop(self, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Cancel what runs, run `last` and end the thread; each takes a second at most."""
        if not self._thread.is_alive():
            return
        with contextlib.suppress(TimeoutError):
            self.start(_end(last)).result(_STOP_SECS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_STOP_SECS)
        if not self._thread.is_alive():
            self._loop.close()


class _DaemonThreads(ThreadPoolExecutor):
    """A thread for each call, none joined at exit: a name that does not resolve blocks for long."""

    def submit(self, fn: Callable[..., _T], /, *args: Any, **kwargs: Any) -> Future[_T]:
        future: Future[_T] = Future()

        def run() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(fn(*args, **kwargs))
                except BaseException as error:
                    future.set_exception(error)

        Thread(target=run, daemon=True).start()
        return future


async def _end(last: Callable[[], Coroutine[Any, Any, None]]) -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others, timeout=_STOP_SECS / 2)
    await last()
