# SPDX-License-Identifier: Apache-2.0
"""How good the best was after how many trials, and when it was as good as somebody else's."""

from __future__ import annotations

from collections.abc import Iterable

from kope_tvm.memory.experience import Experience

Curve = tuple[tuple[int, float], ...]
"""Each trial that was faster than all before it: its number from 1, and the tuner's seconds."""

SHARES = (0.9, 0.95, 1.0)
"""Of a peer's speed."""


def curve_of(journal: Iterable[Experience]) -> Curve:
    """The best so far over the trials of a work_dir that went to the device."""
    best = float("inf")
    found = []
    measured = sorted((one for one in journal if one.accepted), key=lambda one: one.at)
    for number, one in enumerate(measured, 1):
        secs = sorted(one.run_secs)[len(one.run_secs) // 2] if one.run_secs else best
        if secs < best:
            best = secs
            found.append((number, secs))
    return tuple(found)


def reached(curve: Curve, speed: float, share: float) -> int | None:
    """The trial from which the best so far has `share` of a peer's speed; None for never.

    `speed` is how many times as fast as the peer the end of the curve is, measured beside it: the
    tuner's own seconds, made at other times, only say how the curve's points stand to each other.
    """
    if not curve:
        return None
    last_secs = curve[-1][1]
    return next((number for number, secs in curve if speed * last_secs / secs >= share), None)
