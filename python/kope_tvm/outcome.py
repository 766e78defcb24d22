# SPDX-License-Identifier: Apache-2.0
"""What became of a candidate: the answer of a gate, and the answer of the device."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

SUSPICIOUS = frozenset({"E_CACHED", "E_IMPOSSIBLE", "E_INPUT_WRITTEN", "E_QUARANTINE", "E_THREADS"})
"""Codes of the device that are stored as a rule, and never shown as an example."""


@dataclass(frozen=True)
class Verdict:
    """One gate's answer."""

    gate: str
    accepted: bool
    code: str = ""
    """`E_...`, empty where accepted."""
    reason: str = ""
    """One number and a place, e.g. `max_rel 3.1e-2 at [63, 0..15]`."""
    suspicious: bool = False
    """Refused for cheating: stored as a rule, never shown as an example."""

    def __str__(self) -> str:
        return "accepted" if self.accepted else f"{self.code} {self.reason}".strip()


def accept(gate: str) -> Verdict:
    """The verdict of a gate that found nothing."""
    return Verdict(gate, accepted=True)


def refuse(gate: str, code: str, reason: str, *, suspicious: bool = False) -> Verdict:
    """The verdict of a gate that found `reason`."""
    return Verdict(gate, accepted=False, code=code, reason=reason, suspicious=suspicious)


@dataclass(frozen=True)
class Measurement:
    """What the device said of one candidate: run times, or where and why there are none."""

    run_secs: tuple[float, ...] = ()
    """Seconds of one call, one value a repeat; empty where it failed."""
    stage: str = "run"
    """Where it ended: `build`, `run` or `check`."""
    error: str = ""
    code: str = ""
    """`E_BUILD`, `E_CRASH`, `E_TIMEOUT`, `E_NUMERICS`, `E_DEVICE`, ...; empty where it ran."""
    build_secs: float = 0.0
    device_secs: float = 0.0
    """Wall seconds the device was held."""
    check_secs: float = 0.0
    """Of those, what comparing outputs took: tensors, calls made for it alone, comparisons."""
    max_error: float = 0.0
    """Largest error, in units of the allowed one; 0 where unchecked."""
    is_proven: bool = False
    """Right on every distribution and seed: only such a one may be the best."""

    @property
    def ok(self) -> bool:
        return bool(self.run_secs) and not self.error

    @property
    def secs(self) -> float:
        """The median of the repeats; infinity where it failed."""
        return median(self.run_secs) if self.ok else float("inf")

    @property
    def suspicious(self) -> bool:
        """Whether it was refused for what only a cheat does."""
        return self.code in SUSPICIOUS

    @property
    def noise(self) -> float:
        """Half the spread of the repeats over their median."""
        if not self.ok or len(self.run_secs) < 2:
            return 0.0
        return (max(self.run_secs) - min(self.run_secs)) / 2 / self.secs
