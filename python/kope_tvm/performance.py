# SPDX-License-Identifier: Apache-2.0
"""The performance gate: what time is believed, and by how much a candidate must be faster."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from kope_tvm.outcome import Measurement

GAMMA = 1.03
"""A smaller gain leaves the incumbent, or the compiler's baseline, where it is."""
NOISES = 2.0
"""So many times the measured noise a gain must be, as a share."""
ROOF_SLACK = 0.95
"""Of the measured roof: it was measured too."""
FEWER_PRODUCTS = 4.0
"""Winograd's F(4x4, 3x3) does with so many times fewer multiplications; nothing in use does with
less.
"""
_CONTRACTIONS = frozenset({"matmul", "conv2d", "depthwise"})
QUARANTINE = 10.0
"""A candidate so many times faster than the best is proved again, with inputs no one has seen."""


@dataclass(frozen=True)
class Comparison:
    """A challenger beside an incumbent, measured in turns."""

    correct: bool
    """Right on every case."""
    suspicious: bool
    """Refused for what only a cheat does."""
    faster: bool
    """By more than the noise; says nothing of a wrong one."""
    gain: float
    """How many times as fast, by the medians; 0 where it has no time."""
    needed: float
    """The gain from which it is faster."""
    code: str = ""
    """Why it is not correct; empty where it is, or was never proved."""
    reason: str = ""
    note: str = ""
    """What a person should know of it, such as that a second opinion disagrees."""

    @property
    def accepted(self) -> bool:
        """Whether it takes the incumbent's place."""
        return self.correct and self.faster and not self.suspicious


def compared(challenger: Measurement, incumbent: Measurement) -> Comparison:
    """Their comparison; the run times of each are those of all turns."""
    gain = incumbent.secs / challenger.secs if challenger.ok and incumbent.ok else 0.0
    needed = needed_gain(challenger.run_secs, incumbent.run_secs)
    return Comparison(
        correct=challenger.ok and challenger.is_proven,
        suspicious=challenger.suspicious,
        faster=gain >= needed,
        gain=gain,
        needed=needed,
        code=challenger.code,
        reason=challenger.error,
    )


def needed_gain(*run_secs: Sequence[float]) -> float:
    """`max(1.03, 1 + 2 x noise)`, of the noisier."""
    return max(GAMMA, 1 + NOISES * max((noise(secs) for secs in run_secs), default=0.0))


def noise(run_secs: Sequence[float]) -> float:
    """Half of what the middle half of the times spreads over, as a share of their median.

    One repeat that was interrupted is no noise of the others.
    """
    if len(run_secs) < 2:
        return 0.0
    ranked = sorted(run_secs)
    cut = len(ranked) // 4
    return (ranked[-1 - cut] - ranked[cut]) / 2 / median(ranked)


def least_secs(roof_secs: float, op_class: str) -> float:
    """The least time to believe of a task whose roof is `roof_secs`; 0 where that is unknown."""
    return roof_secs / FEWER_PRODUCTS if op_class in _CONTRACTIONS else roof_secs


def in_doubt(measurement: Measurement, floor_secs: float) -> Measurement:
    """The measurement, refused where its time is none, or less than the machine can do.

    `floor_secs` is `least_secs`; 0 where it is unknown.
    """
    if not measurement.ok:
        return measurement
    if not all(math.isfinite(secs) and secs > 0 for secs in measurement.run_secs):
        return _impossible(measurement, f"times of {list(measurement.run_secs)} s")
    if measurement.secs < floor_secs * ROOF_SLACK:
        text = f"{measurement.secs:.3g} s, this machine needs {floor_secs:.3g} s or more"
        return _impossible(measurement, text)
    return measurement


def _impossible(measurement: Measurement, error: str) -> Measurement:
    return replace(
        measurement, run_secs=(), stage="check", code="E_IMPOSSIBLE", error=error, is_proven=False
    )
