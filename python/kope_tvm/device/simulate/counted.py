# SPDX-License-Identifier: Apache-2.0
"""What the simulated machine counted while a timer ran."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from kope_tvm.device.simulate.calibration import MARK as MARK

_RECORD = struct.Struct("<15Q")


@dataclass(frozen=True)
class Counted:
    """One timed region, all threads and cores of the guest together but for `cycles`."""

    cycles: int
    """Of the core that started; a parallel loop takes as long as its slowest core."""
    clock_hz: float
    instructions: int
    vector: int
    scalar: int
    memory: int
    """Loads and stores, vector and scalar."""
    branches: int
    wait_dependency: int
    """Cycles an instruction waited for what another computes."""
    wait_memory: int
    """Cycles an instruction waited for a line that was not in the first level."""
    wait_unit: int
    """Cycles an instruction waited for its unit: long where that unit is kept busy."""
    mispredicted: int
    l1_misses: int
    l2_misses: int
    code_misses: int
    """Lines of code that were not in the first level: what is unrolled too far."""
    mark: str = MARK

    @property
    def secs(self) -> float:
        return self.cycles / self.clock_hz

    @property
    def line(self) -> str:
        """All of it in one line, as a model is told it."""
        waits = f"dependencies {self.wait_dependency}, memory {self.wait_memory}"
        misses = f"L1 {self.l1_misses}, L2 {self.l2_misses}, code {self.code_misses}"
        return (
            f"{self.mark}: {self.cycles} cycles; {self.instructions} instr: {self.vector} vector, "
            f"{self.scalar} scalar, {self.memory} loads/stores; cycles waited for {waits}, "
            f"units {self.wait_unit}; misses {misses}; {self.mispredicted} mispredicted"
        )


def read(regions_dir: Path, mark: str = MARK) -> tuple[Counted, ...]:
    """Every timed region of the guests that wrote there, in the order in which they ended."""
    found = sorted(_records(regions_dir, mark), key=lambda pair: pair[0])
    return tuple(region for _, region in found)


def _records(regions_dir: Path, mark: str) -> Iterator[tuple[int, Counted]]:
    for path in regions_dir.glob("*.regions"):
        written = path.read_bytes()
        for position in range(0, len(written) - _RECORD.size + 1, _RECORD.size):
            ended, cycles, clock_hz, *counters = _RECORD.unpack_from(written, position)
            yield ended, replace(Counted(cycles, float(clock_hz), *counters), mark=mark)
