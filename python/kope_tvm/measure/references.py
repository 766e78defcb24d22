# SPDX-License-Identifier: Apache-2.0
"""The tuner's side of a reference: what was made of it, and what it asks of candidates."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kope_tvm.measure.job import Argument, Case
from kope_tvm.outcome import Measurement
from kope_tvm.performance import QUARANTINE

if TYPE_CHECKING:
    from tvm import IRModule

MAX_IMAGE_BYTES = 1 << 30
"""Of all images together."""


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
    image_fd: int | None = None
    image_bytes: int = 0

    def free(self) -> None:
        if self.image_fd is not None:
            os.close(self.image_fd)


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
        return self.checked.best_secs

    def doubts(self, measurement: Measurement) -> bool:
        """Whether it is so much faster than the best that it must be proved again."""
        if self.checked is None or not measurement.ok:
            return False
        return measurement.secs * QUARANTINE < self.checked.best_secs < math.inf

    def note(self, measurement: Measurement) -> None:
        """Remember the best that was right on every case."""
        if self.checked and measurement.is_proven:
            self.checked.best_secs = min(self.checked.best_secs, measurement.secs)


class References:
    """The references of a pool, by module; the oldest images make room for new ones."""

    def __init__(self) -> None:
        self._known: dict[bytes, Known] = {}

    def get(self, module: bytes) -> Known | None:
        """What is known of a module."""
        return self._known.get(module)

    def keep(self, known: Known) -> None:
        """Remember it; what is forgotten is made again when asked for."""
        kept = sum(each.image_bytes for each in self._known.values())
        while self._known and kept + known.image_bytes > MAX_IMAGE_BYTES:
            oldest = self._known.pop(next(iter(self._known)))
            kept -= oldest.image_bytes
            oldest.free()
        self._known[known.module] = known

    def free(self) -> None:
        """Forget all."""
        for each in self._known.values():
            each.free()
        self._known.clear()


def module_json(mod: str | bytes | IRModule) -> bytes:
    """What `tvm.ir.save_json` makes of the module, as bytes."""
    if isinstance(mod, bytes):
        return mod
    if isinstance(mod, str):
        return mod.encode()
    import tvm

    return str(tvm.ir.save_json(mod)).encode()
