# SPDX-License-Identifier: Apache-2.0
"""The fastest trials measured again in turns: one lucky measurement must not win a task."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from kope_tvm.candidate import Candidate
from kope_tvm.context import Trial
from kope_tvm.outcome import Verdict
from kope_tvm.proposal import Proposal
from kope_tvm.seam import Device

NUM_FINALISTS = 3
NUM_TURNS = 2
MAX_FINALS = 3
CLOSE = 1.3
"""Only trials within this factor of the fastest take part; on a noisy machine times differ so
much.
"""


def finals(
    trials: Sequence[Trial], apply: Callable[[Proposal], Candidate | Verdict], device: Device
) -> Iterator[tuple[Trial, tuple[float, ...]]]:
    """Each finalist with the times of all its turns, the first measurement's among them.

    Until the fastest is one that was measured again: who falls behind makes room for the next.
    """
    standing = {trial.state: trial for trial in trials if trial.measurement is not None}
    if len(_finalists(standing.values())) < 2:
        return
    held: set[str] = set()
    for _ in range(MAX_FINALS):
        finalists = _finalists(standing.values())
        if finalists[0].state in held:
            return
        fresh = [trial for trial in finalists if trial.state not in held]
        held |= {trial.state for trial in fresh}
        for trial, run_secs in _in_turns(fresh, apply, device):
            standing[trial.state] = remeasured(trial, run_secs)
            yield trial, run_secs


def _in_turns(
    trials: Sequence[Trial], apply: Callable[[Proposal], Candidate | Verdict], device: Device
) -> Iterator[tuple[Trial, tuple[float, ...]]]:
    applied = [(trial, apply(trial.proposal)) for trial in trials]
    ready = [(trial, one) for trial, one in applied if isinstance(one, Candidate)]
    turns: list[list[float]] = [[] for _ in ready]
    for _ in range(NUM_TURNS):
        for index, measurement in device.measure([candidate for _, candidate in ready]):
            turns[index] += measurement.run_secs
    for (trial, _), secs in zip(ready, turns, strict=True):
        if secs and trial.measurement is not None:
            yield trial, (*trial.measurement.run_secs, *secs)


def remeasured(trial: Trial, run_secs: tuple[float, ...]) -> Trial:
    """The same trial with the times of all its turns."""
    assert trial.measurement is not None
    return replace(trial, measurement=replace(trial.measurement, run_secs=run_secs))


def _finalists(trials: Iterable[Trial]) -> list[Trial]:
    ranked = sorted((one for one in trials if one.secs < float("inf")), key=lambda one: one.secs)
    return [one for one in ranked[:NUM_FINALISTS] if one.secs <= ranked[0].secs * CLOSE]
