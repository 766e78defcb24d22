# SPDX-License-Identifier: Apache-2.0
"""The measuring pool as the round sees it: one task's device."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import tvm

from kope_tvm.candidate import Candidate
from kope_tvm.measure.pool import Pool
from kope_tvm.outcome import Measurement


@dataclass(frozen=True)
class PoolDevice:
    """Measures candidates of one task; keeps count of the time it takes."""

    pool: Pool
    untuned: tvm.IRModule
    spend: Callable[[float], None]
    doubt: Callable[[], bool]
    """Asks the machine once more what it can do; False where it was asked before."""
    floor_secs: Callable[[], float]
    """The least time to believe, as far as the machine is known."""
    hopeless_secs: float | None = None
    prove_secs: float | None = None
    """None: what beats the best so far is proved."""
    is_last: bool = True
    """What it measures is not measured once more."""

    def measure(self, candidates: Sequence[Candidate]) -> Iterator[tuple[int, Measurement]]:
        """What is faster than the machine is not called so until the machine was asked again."""
        doubted: list[tuple[int, Measurement]] = []
        for found in self._measured(candidates):
            if found[1].code == "E_IMPOSSIBLE":
                doubted.append(found)
            else:
                yield found
        if not doubted or not self.doubt():
            yield from doubted
            return
        indices = [index for index, _ in doubted]
        for place, measurement in self._measured([candidates[index] for index in indices]):
            yield indices[place], measurement

    def _measured(self, candidates: Sequence[Candidate]) -> Iterator[tuple[int, Measurement]]:
        began = time.perf_counter()
        found_all = self.pool.measure(
            [candidate.sch.mod for candidate in candidates],
            reference=self.untuned,
            hopeless_secs=self.hopeless_secs,
            prove_secs=self.prove_secs,
            floor_secs=self.floor_secs(),
            is_last=self.is_last,
        )
        for found in found_all:
            self.spend(time.perf_counter() - began)
            yield found
            began = time.perf_counter()
