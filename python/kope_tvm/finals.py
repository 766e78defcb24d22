# SPDX-License-Identifier: Apache-2.0
"""The fastest trials measured again in turns: one lucky measurement must not win a task."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from kope_tvm.candidate import Candidate
from kope_tvm.context import Trial
from kope_tvm.outcome import Verdict
from kope_tvm.proposal import Proposal
from kope_tvm.seam import Device

NUM_FINALISTS = 3
NUM_TURNS = 2
CLOSE = 1.3
"""Only trials within this factor of the fastest take part; on a noisy machine times differ so
much.
"""


def finals(
    trials: Sequence[Trial], apply: Callable[[Proposal], Candidate | Verdict], device: Device
) -> Iterator[tuple[Trial, tuple[float, ...]]]:
    """Each finalist with the times of all its turns, the first measurement's among them."""
    finalists = _finalists(trials)
    if len(finalists) < 2:
        return
    applied = [apply(trial.proposal) for trial in finalists]
    candidates = [one for one in applied if isinstance(one, Candidate)]
    if len(candidates) < len(finalists):
        return
    turns: list[list[float]] = [[] for _ in finalists]
    for _ in range(NUM_TURNS):
        for index, measurement in device.measure(candidates):
            turns[index] += measurement.run_secs
    for trial, secs in zip(finalists, turns, strict=True):
        if secs and trial.measurement is not None:
            yield trial, (*trial.measurement.run_secs, *secs)


def remeasured(trial: Trial, run_secs: tuple[float, ...]) -> Trial:
    """The same trial with the times of all its turns."""
    assert trial.measurement is not None
    return replace(trial, measurement=replace(trial.measurement, run_secs=run_secs))


def _finalists(trials: Sequence[Trial]) -> list[Trial]:
    ranked = sorted((one for one in trials if one.secs < float("inf")), key=lambda one: one.secs)
    return [one for one in ranked[:NUM_FINALISTS] if one.secs <= ranked[0].secs * CLOSE]
