# SPDX-License-Identifier: Apache-2.0
"""How far a model's proposal came, in the words of an exchange."""

from __future__ import annotations

from kope_tvm.chat.dialogue import Outcome
from kope_tvm.context import Trial
from kope_tvm.proposal import lane_of, proposal_text, space_of

_GOOD_FOR = {"build": "legal", "run": "built", "check": "built"}
"""The stage reached by a candidate that failed in one."""

_UNREAD = frozenset({"E_STEP", "E_SCRIPT", "E_SIGNATURE", "E_REPLAY", "E_POSTPROC", "E_LANE"})
"""Refusals of what could be read but not applied."""


def outcome_of(trial: Trial, incumbent_secs: float) -> Outcome:
    """The outcome of a trial; `incumbent_secs` is the best before it, 0 where there was none."""
    measured = trial.measurement
    failed = trial.verdict if measured is None else measured
    reason = trial.verdict.reason if measured is None else measured.error
    is_right = measured is not None and measured.ok
    return Outcome(
        lane_of(trial.proposal),
        space_of(trial.proposal),
        proposal_text(trial.proposal),
        trial.state,
        _stage(trial, incumbent_secs),
        failed.code,
        reason,
        trial.secs if is_right else 0.0,
        incumbent_secs if incumbent_secs < float("inf") else 0.0,
    )


def _stage(trial: Trial, incumbent_secs: float) -> str:
    if trial.measurement is None:
        return "parsed" if trial.verdict.code in _UNREAD else "legal"
    if not trial.measurement.ok:
        return _GOOD_FOR.get(trial.measurement.stage, "legal")
    is_faster = not incumbent_secs or trial.secs < incumbent_secs
    return "faster" if is_faster else "correct"
