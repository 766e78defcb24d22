# SPDX-License-Identifier: Apache-2.0
"""The fastest trials measured again in turns, and proved: one lucky measurement wins no task."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import count

from kope_tvm.candidate import Candidate
from kope_tvm.context import Trial
from kope_tvm.outcome import Measurement, Verdict
from kope_tvm.performance import GAMMA, compared
from kope_tvm.proposal import Proposal
from kope_tvm.seam import Device

NUM_FINALISTS = 3
NUM_TURNS = 2
MAX_TURNS = 6
"""One slow turn of so many is no noise of the others."""
MAX_DISTURBED_TURNS = 12
"""Nor are the first two, where something else ran then."""
MAX_FINALS = 3
"""More are held only while the fastest is one that was never proved."""
CLEAR = 3.0
"""A challenger so many times as fast needs no second turn: no noise makes that of a loss."""
CLOSE = 1.3
"""Only trials within this factor of the fastest take part; on a noisy machine times differ so
much.
"""
FAILED_SECS = 1e10
"""How MetaSchedule writes down a run that failed."""


def finals(
    trials: Sequence[Trial], apply: Callable[[Proposal], Candidate | Verdict], device: Device
) -> Iterator[tuple[Trial, Measurement]]:
    """Each finalist with the times of all its turns, the first measurement's among them.

    Until the fastest is one that was measured again, or is right on every case and has no rival:
    who falls behind makes room for the next, and so does who fails. `device` must prove them.
    """
    standing = {trial.state: trial for trial in trials if trial.measurement is not None}
    held: set[str] = set()
    for number in count():
        finalists = _finalists(standing.values())
        if not finalists or _is_settled(finalists, held, is_late=number >= MAX_FINALS):
            return
        fresh = [trial for trial in finalists if trial.state not in held]
        held |= {trial.state for trial in fresh}
        for trial, measurement in _in_turns(fresh, apply, device):
            standing[trial.state] = remeasured(trial, measurement)
            yield trial, measurement


def against(
    challenger: Candidate,
    incumbent: Candidate,
    device: Device,
    plain: Device,
    known_secs: float = math.inf,
) -> tuple[Measurement, Measurement]:
    """What became of the two, measured in turns: all times, or the first failure.

    More turns are taken while the challenger is ahead, but by no more than the noise, and while it
    is behind and far from the `known_secs` that made it the challenger: something else runs then.
    `device` must prove the challenger; the incumbent was proved before, and `plain` may only time
    it.
    """
    ours: list[Measurement] = []
    theirs: list[Measurement] = []
    num_turns = MAX_TURNS
    for turn in count(1):
        ours += [measurement for _, measurement in device.measure([challenger])]
        if not ours[-1].ok:
            break
        theirs += [measurement for _, measurement in plain.measure([incumbent])]
        found = compared(_together(ours), _together(theirs))
        is_disturbed = found.gain < GAMMA and _together(ours).secs > known_secs * CLOSE
        num_turns = MAX_DISTURBED_TURNS if is_disturbed else num_turns
        is_open = is_disturbed or GAMMA <= found.gain < found.needed
        is_clear = found.gain >= max(CLEAR, found.needed)
        if is_clear or turn >= (num_turns if is_open else NUM_TURNS):
            break
    return _together(ours), _together(theirs) if theirs else Measurement()


def remeasured(trial: Trial, measurement: Measurement) -> Trial:
    """The same trial as its finals left it."""
    return replace(trial, measurement=measurement)


def _is_settled(finalists: Sequence[Trial], held: set[str], *, is_late: bool) -> bool:
    fastest = finalists[0]
    assert fastest.measurement is not None
    if fastest.state in held:
        return True
    return fastest.measurement.is_proven and (is_late or len(finalists) == 1)


def _in_turns(
    trials: Sequence[Trial], apply: Callable[[Proposal], Candidate | Verdict], device: Device
) -> Iterator[tuple[Trial, Measurement]]:
    applied = [(trial, apply(trial.proposal)) for trial in trials]
    ready = [(trial, one) for trial, one in applied if isinstance(one, Candidate)]
    turns = _turns([candidate for _, candidate in ready], device)
    for trial, one in applied:
        if isinstance(one, Verdict) and trial.measurement and not trial.measurement.is_proven:
            yield trial, Measurement(stage="check", code=one.code, error=one.reason)
    for (trial, _), measured in zip(ready, turns, strict=True):
        assert trial.measurement is not None
        if not any(each.code == "E_DEVICE" for each in measured):
            yield trial, _together([trial.measurement, *measured])


def _turns(candidates: Sequence[Candidate], device: Device) -> list[list[Measurement]]:
    turns: list[list[Measurement]] = [[] for _ in candidates]
    for _ in range(NUM_TURNS):
        for index, measurement in device.measure(candidates):
            turns[index].append(measurement)
    return turns


def _together(measured: Sequence[Measurement]) -> Measurement:
    """All times, as right as the last; the first failure where there is one."""
    for each in measured:
        if not each.ok:
            return each
    secs = tuple(secs for each in measured for secs in each.run_secs)
    return replace(measured[-1], run_secs=secs, max_error=max(each.max_error for each in measured))


def _finalists(trials: Iterable[Trial]) -> list[Trial]:
    ranked = sorted((one for one in trials if one.secs < float("inf")), key=lambda one: one.secs)
    return [one for one in ranked[:NUM_FINALISTS] if one.secs <= ranked[0].secs * CLOSE]
