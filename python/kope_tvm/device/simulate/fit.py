# SPDX-License-Identifier: Apache-2.0
"""Least squares on the logarithms of simulated over measured times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import numpy as np

from kope_tvm.device.simulate.calibration import Weights
from kope_tvm.device.simulate.opinions.ranks import spearman

_MAX_STEPS = 6
_PROBE = 1.2
"""A weight is so much heavier where its effect is looked for: cycles are whole numbers."""
_DAMPING = 1e-3
"""What no kernel feels stays as it was."""
_LEAST, _MOST = 0.2, 20.0
_GAIN = 0.01
"""A step that takes less off the error is the last."""

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
    before: Nearness
    after: Nearness


def fit(simulate: Simulate, measured: Sequence[float]) -> Fit:
    """Gauss-Newton over the logarithms of the weights, which are positive so.

    Stops where a step gains nothing; the weights stay between 0.2 and 20.
    """
    wanted = np.log(np.asarray(measured, float))
    at = np.zeros(len(fields(Weights)))
    told = np.log(simulate(_weights(at)))
    before = _nearness(told, wanted)
    for _ in range(_MAX_STEPS):
        effects = _effects(simulate, at, told)
        reached, there = _step(simulate, at, told, wanted, effects)
        gain = _error(told - wanted) - _error(there - wanted)
        if gain > 0:
            at, told = reached, there
        if gain < _GAIN * _error(told - wanted) or _error(told - wanted) < _GAIN:
            break
    return Fit(_weights(at), before, _nearness(told, wanted))


_Array = np.ndarray


def _effects(simulate: Simulate, at: _Array, told: _Array) -> _Array:
    """How each kernel's time follows each weight."""
    columns = []
    for number in range(len(at)):
        probe = at.copy()
        probe[number] += np.log(_PROBE)
        columns.append((np.log(simulate(_weights(probe))) - told) / np.log(_PROBE))
    return np.stack(columns, axis=1)


def _step(
    simulate: Simulate, at: _Array, told: _Array, wanted: _Array, effects: _Array
) -> tuple[_Array, _Array]:
    """The whole step, or half of it and half again where it goes too far."""
    damping = np.sqrt(_DAMPING * len(told)) * np.eye(len(at))
    left = np.concatenate([effects, damping])
    right = np.concatenate([wanted - told, np.zeros(len(at))])
    step = np.linalg.lstsq(left, right, rcond=None)[0]
    for share in (1.0, 0.5, 0.25):
        reached = np.clip(at + share * step, np.log(_LEAST), np.log(_MOST))
        there = np.log(simulate(_weights(reached)))
        if _error(there - wanted) < _error(told - wanted):
            break
    return reached, there


def _weights(at: _Array) -> Weights:
    return Weights(*(float(value) for value in np.exp(at)))


def _nearness(told: _Array, wanted: _Array) -> Nearness:
    return Nearness(_error(told - wanted), spearman(told.tolist(), wanted.tolist()))


def _error(difference: _Array) -> float:
    return float(np.sqrt(np.mean(difference**2)))
