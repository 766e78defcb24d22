# SPDX-License-Identifier: Apache-2.0
"""What the machine of a session can do at most: known from before, or measured when it is due."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from kope_tvm.feedback.roof import kept_roof, known_roof, measured_again, measured_roof
from kope_tvm.measure.pool import Pool
from kope_tvm.target import TargetSpec
from kope_tvm.task import Features

_SAID = "measuring what this machine can do at most: some seconds, once a machine"
_SAID_AGAIN = "faster than this machine was seen to be: measuring that again before it is believed"


class Ceiling:
    """The roof over all tasks of a session."""

    def __init__(self, pool: Pool, target: TargetSpec, home: Path) -> None:
        """`home` keeps roofs from one run to the next."""
        self._pool, self._target, self._home = pool, target, home
        self._roof = known_roof(target, home)
        self._was_doubted = False

    def secs(self, features: Features) -> float:
        """A lower bound of a function's time; 0 where the roof is not known."""
        if self._roof is None or (self._was_doubted and not self._roof.is_settled):
            return 0.0
        return self._roof.secs(features)

    def measure(self, say: Callable[[str], None]) -> bool:
        """Have it known; whether it was not."""
        if self._roof is not None:
            return False
        say(_SAID)
        self._roof = measured_roof(self._pool, self._target, self._home)
        return True

    def doubt(self, say: Callable[[str], None]) -> bool:
        """Measure it again, once a session; whether that was done.

        A busy machine's roof is too low, and a time below it may be honest. Where the machine is
        too busy to tell, nothing is refused any more.
        """
        if self._roof is None or self._was_doubted:
            return False
        self._was_doubted = True
        say(_SAID_AGAIN)
        self._roof = measured_again(self._roof, self._pool, self._target, self._home)
        return True

    def raise_to(self, features: Features, secs: float) -> bool:
        """The best ever seen is the roof: a right function above it shows that it was too low.

        Whether it was.
        """
        if self._roof is None or not 0 < secs < self._roof.secs(features):
            return False
        self._roof = self._roof.raised(features, secs)
        kept_roof(self._roof, self._target, self._home)
        return True
