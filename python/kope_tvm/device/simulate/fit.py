# SPDX-License-Identifier: Apache-2.0
"""Least squares on the logarithms of simulated over measured times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from kope_tvm.device.simulate.calibration import Weights
from kope_tvm.device.simulate.opinions.ranks import spearman

_Array = npt.NDArray[Any]
_NUM_WEIGHTS = len(fields(Weights))
_MAX_STEPS = 6
_PROBE = 1.2
"""A weight is so much heavier where its effect is looked for: cycles are whole numbers."""
_DAMPING = 1e-3
"""What no kernel feels stays as it was."""
_LEAST, _MOST = 0.2, 20.0
_GAIN = 0.05
"""A step that takes a smaller share off the error is the last."""
_EXACT = 2e-3

Simulate = Callable[[Weights], Sequence[float]]
"""Seconds of each kernel under such weights."""


@dataclass(frozen=True)
class Nearness:
    """How near simulated times are to measured ones."""

    error: float
    """Root mean square of the logarithms: 0.10 is about 10%."""
    rank_correlation: float
    """Spearman's."""


@dataclass(frozen=True)
class Fit:
    """The weights found, and what they are worth."""

    weights: Weights
    call_secs: float
    """Of one call by the board's timer, whatever it calls: fitted with them, then left out."""
    before: Nearness
    after: Nearness


@dataclass(frozen=True)
class _Point:
    """Where the search is."""

    logs: _Array
    """Of the weights, which are positive so."""
    call_secs: float
    simulated: _Array

    @property
    def told(self) -> _Array:
        return np.log(self.simulated + self.call_secs)


def fit(simulate: Simulate, measured: Sequence[float]) -> Fit:
    """Gauss-Newton over the logarithms of the weights, and over the seconds of a call.

    Stops where a step gains little; the weights stay between 0.2 and 20.
    """
    wanted = np.log(np.asarray(measured, float))
    at = _point(simulate, np.zeros(_NUM_WEIGHTS), 0.0)
    before = _nearness(at, wanted)
    for _ in range(_MAX_STEPS):
        error = _nearness(at, wanted).error
        if error < _EXACT:
            break
        reached = _step(simulate, at, wanted)
        gain = error - _nearness(reached, wanted).error
        if gain > 0:
            at = reached
        if gain < _GAIN * error:
            break
    return Fit(Weights(*_plain(at.logs)), at.call_secs, before, _nearness(at, wanted))


def _step(simulate: Simulate, at: _Point, wanted: _Array) -> _Point:
    """The whole step, or half of it and half again where it goes too far."""
    scale = float(np.exp(wanted.min()))
    effects = np.column_stack([_effects(simulate, at), scale * np.exp(-at.told)])
    damping = np.sqrt(_DAMPING * len(wanted)) * np.eye(_NUM_WEIGHTS + 1)
    left = np.concatenate([effects, damping])
    right = np.concatenate([wanted - at.told, np.zeros(_NUM_WEIGHTS + 1)])
    step = np.linalg.lstsq(left, right, rcond=None)[0]
    for share in (1.0, 0.5, 0.25):
        logs = np.clip(at.logs + share * step[:-1], np.log(_LEAST), np.log(_MOST))
        reached = _point(simulate, logs, max(0.0, at.call_secs + share * scale * step[-1]))
        if _nearness(reached, wanted).error < _nearness(at, wanted).error:
            break
    return reached


def _effects(simulate: Simulate, at: _Point) -> _Array:
    """How each kernel's time follows each weight."""
    columns = []
    for number in range(_NUM_WEIGHTS):
        logs = at.logs.copy()
        logs[number] += np.log(_PROBE)
        probe = _point(simulate, logs, at.call_secs)
        columns.append((probe.told - at.told) / np.log(_PROBE))
    return np.column_stack(columns)


def _point(simulate: Simulate, logs: _Array, call_secs: float) -> _Point:
    return _Point(logs, call_secs, np.asarray(simulate(Weights(*_plain(logs)))))


def _plain(logs: _Array) -> list[float]:
    return [float(value) for value in np.exp(logs)]


def _nearness(at: _Point, wanted: _Array) -> Nearness:
    error = float(np.sqrt(np.mean((at.told - wanted) ** 2)))
    return Nearness(error, spearman(at.told.tolist(), wanted.tolist()))
