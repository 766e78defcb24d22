# SPDX-License-Identifier: Apache-2.0
"""What a tuning run shows while it works: a live bar where somebody looks, nothing elsewhere."""

from __future__ import annotations

import sys
from math import isfinite
from typing import TYPE_CHECKING, Protocol, TextIO

from kope_tvm.outcome import Measurement

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID


class Progress(Protocol):
    """What `tune` reports to; no method may raise or wait."""

    def start(self, total_trials: int) -> None: ...

    def trial(
        self, task_name: str, measurement: Measurement | None, best_secs: float, trials_done: int
    ) -> None:
        """One candidate was measured; None where it never got to the device."""

    def spent(self, tokens: int) -> None:
        """Tokens of a model used so far, in all."""

    def note(self, text: str) -> None: ...

    def close(self) -> None: ...


class SilentProgress:
    """Shows nothing."""

    def start(self, total_trials: int) -> None:
        """Show nothing."""

    def trial(
        self, task_name: str, measurement: Measurement | None, best_secs: float, trials_done: int
    ) -> None:
        """Show nothing."""

    def spent(self, tokens: int) -> None:
        """Show nothing."""

    def note(self, text: str) -> None:
        """Show nothing."""

    def close(self) -> None:
        """Show nothing."""


class LiveProgress:
    """A bar on a terminal: trials, the best time of the task in hand, tokens, time left."""

    def __init__(self, stream: TextIO) -> None:
        self._bar = _bar(stream)
        self._row: TaskID | None = None
        self._tokens = 0
        self._best: dict[str, float] = {}
        self._failed = 0

    def start(self, total_trials: int) -> None:
        """Show the bar."""
        self._bar.start()
        self._row = self._bar.add_task("tuning", total=total_trials, state="warming up")

    def trial(
        self, task_name: str, measurement: Measurement | None, best_secs: float, trials_done: int
    ) -> None:
        """Move the bar on."""
        self._failed += not (measurement is not None and measurement.ok)
        self._best[task_name] = best_secs
        self._update(completed=trials_done, state=self._state(task_name))

    def spent(self, tokens: int) -> None:
        """Show the tokens used."""
        self._tokens = tokens

    def note(self, text: str) -> None:
        """Print a line above the bar."""
        self._bar.console.print(text, markup=False, highlight=False)

    def close(self) -> None:
        """Leave the bar as it stands."""
        self._bar.stop()

    def _update(self, *, completed: int, state: str) -> None:
        if self._row is not None:
            self._bar.update(self._row, completed=completed, state=state)

    def _state(self, task_name: str) -> str:
        parts = [f"{task_name} best {spell_secs(self._best[task_name])}"]
        if self._failed:
            parts.append(f"{self._failed} failed")
        if self._tokens:
            parts.append(f"{self._tokens} tokens")
        return " · ".join(parts)


def progress_on(stream: TextIO = sys.stderr, *, quiet: bool = False) -> Progress:
    """A live bar where `stream` is a terminal, else silence."""
    return LiveProgress(stream) if stream.isatty() and not quiet else SilentProgress()


def spell_secs(secs: float) -> str:
    """A time as people read it, e.g. `1.25 ms`; `-` where there is none."""
    if not isfinite(secs) or secs <= 0:
        return "-"
    for unit, factor in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if secs >= factor:
            return f"{secs / factor:.3g} {unit}"
    return f"{secs / 1e-9:.3g} ns"


def _bar(stream: TextIO) -> Bar:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn("{task.fields[state]}", markup=False),
        TimeRemainingColumn(),
        console=Console(file=stream),
        transient=False,
    )
