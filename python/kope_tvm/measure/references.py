# SPDX-License-Identifier: Apache-2.0
"""The tuner's side of a reference: what was made of it, and the times known beside it."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kope_tvm.measure.job import Argument, Case
from kope_tvm.outcome import Measurement

if TYPE_CHECKING:
    from tvm import IRModule

MAX_IMAGE_BYTES = 1 << 30
"""Of all images together."""
OTHER_SEEDS = 1 << 16
"""Away from those that every candidate is checked with."""


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
    """Of those that are still to be proved."""
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


def module_json(mod: str | bytes | IRModule) -> bytes:
    """What `tvm.ir.save_json` makes of the module, as bytes."""
    if isinstance(mod, bytes):
        return mod
    if isinstance(mod, str):
        return mod.encode()
    import tvm

    return str(tvm.ir.save_json(mod)).encode()
