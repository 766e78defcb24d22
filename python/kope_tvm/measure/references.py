# SPDX-License-Identifier: Apache-2.0
"""The tuner's side of a reference: what was made of it, and what it asks of candidates."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kope_tvm.measure.job import Argument, Case
from kope_tvm.outcome import Measurement
from kope_tvm.performance import QUARANTINE

if TYPE_CHECKING:
    from tvm import IRModule

MAX_IMAGE_BYTES = 1 << 30
"""Of all images together."""
OTHER_SEEDS = 1 << 16
"""Away from those that every candidate is checked with."""
PROMPT_SECS = 0.02
"""A candidate with longer calls is left to the finals: proving it makes twenty of them, and of the
first programs of a search most are soon beaten.
"""


@dataclass
class Known:
    """The untuned function's outcome, and what candidates are compared with."""

    module: bytes
    measurement: Measurement
    arguments: tuple[Argument, ...] = ()
    cases: tuple[Case, ...] = ()
    notice: str = ""
    best_secs: float = math.inf
    """Of the candidates that were right on every case."""
    seen_secs: float = math.inf
    """Of those that were right on every case they were tried on."""
    hoped_secs: float = math.inf
    """Of those that are in doubt for their time."""
    image_fd: int | None = None
    image_bytes: int = 0
    again: Known | None = None
    """Of other inputs, for what must be proved again."""

    @property
    def num_bytes(self) -> int:
        """Of all images."""
        return self.image_bytes + (self.again.image_bytes if self.again else 0)

    def free(self) -> None:
        if self.image_fd is not None:
            os.close(self.image_fd)
        if self.again is not None:
            self.again.free()


@dataclass(frozen=True)
class Asked:
    """What one call of `measure` asks of all its candidates."""

    checked: Known | None
    hopeless_secs: float | None
    prove_secs: float | None
    floor_secs: float

    @property
    def prove_below(self) -> float:
        """The time below which a candidate is checked on every case."""
        if self.prove_secs is not None or self.checked is None:
            return math.inf if self.prove_secs is None else self.prove_secs
        return min(self.checked.best_secs, self.checked.hoped_secs, PROMPT_SECS)

    def doubts(self, measurement: Measurement) -> bool:
        """Whether it is so much faster than the best that it must be proved again."""
        if self.checked is None or not measurement.ok:
            return False
        return measurement.secs * QUARANTINE < self.checked.seen_secs < math.inf

    def hope(self, measurement: Measurement) -> None:
        """Remember one that is in doubt: what is slower need not be proved before it is."""
        if self.checked:
            self.checked.hoped_secs = min(self.checked.hoped_secs, measurement.secs)

    def note(self, measurement: Measurement) -> None:
        """Remember the best, and the best that was right on every case."""
        if self.checked and measurement.ok:
            self.checked.seen_secs = min(self.checked.seen_secs, measurement.secs)
            if measurement.is_proven:
                self.checked.best_secs = min(self.checked.best_secs, measurement.secs)

    def settle(self) -> None:
        """Nothing is in doubt any more."""
        if self.checked:
            self.checked.hoped_secs = math.inf


class References:
    """The references of a pool, by module; the oldest images make room for new ones."""

    def __init__(self) -> None:
        self._known: dict[bytes, Known] = {}

    def get(self, module: bytes) -> Known | None:
        """What is known of a module."""
        return self._known.get(module)

    def keep(self, known: Known) -> None:
        """Remember it; what is forgotten is made again when asked for."""
        kept = sum(each.num_bytes for each in self._known.values())
        while self._known and kept + known.num_bytes > MAX_IMAGE_BYTES:
            oldest = self._known.pop(next(iter(self._known)))
            kept -= oldest.num_bytes
            oldest.free()
        self._known[known.module] = known

    def free(self) -> None:
        """Forget all."""
        for each in self._known.values():
            each.free()
        self._known.clear()


def without_reference(failed: Measurement) -> Measurement:
    """What candidates get where the untuned function failed."""
    return replace(
        failed,
        stage="check",
        code="E_DEVICE",
        error=f"the untuned function gave nothing to compare with: {failed.code} {failed.error}",
    )


def quarantined(failed: Measurement) -> Measurement:
    """What one gets that was in doubt and failed when it was proved again."""
    error = f"too fast, and wrong when proved again: {failed.code} {failed.error}"
    return replace(failed, stage="check", code="E_QUARANTINE", error=error)


def module_json(mod: str | bytes | IRModule) -> bytes:
    """What `tvm.ir.save_json` makes of the module, as bytes."""
    if isinstance(mod, bytes):
        return mod
    if isinstance(mod, str):
        return mod.encode()
    import tvm

    return str(tvm.ir.save_json(mod)).encode()
