# SPDX-License-Identifier: Apache-2.0
"""How far a model's proposal came, in the words of an exchange."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kope_tvm.chat.dialogue import Outcome, Reply
from kope_tvm.context import Trial
from kope_tvm.prompt.reply import Refused
from kope_tvm.proposal import Proposal, lane_of, proposal_text, space_of

_GOOD_FOR = {"build": "legal", "run": "built", "check": "built"}
"""The stage reached by a candidate that failed in one."""

_UNREAD = frozenset({"E_STEP", "E_SCRIPT", "E_SIGNATURE", "E_REPLAY", "E_POSTPROC", "E_LANE"})
"""Refusals of what could be read but not applied."""


def outcome_of(trial: Trial, incumbent_secs: float) -> Outcome:
    """The outcome of a trial; `incumbent_secs` is the best before it, infinity for none."""
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


def said_before(proposal: Proposal) -> Outcome:
    """The outcome of a proposal that the model had made already."""
    return Outcome(
        lane_of(proposal),
        space_of(proposal),
        proposal_text(proposal),
        code="E_REPEAT",
        reason="proposed before in this run",
    )


def _stage(trial: Trial, incumbent_secs: float) -> str:
    if trial.measurement is None:
        return "parsed" if trial.verdict.code in _UNREAD else "legal"
    if not trial.measurement.ok:
        return _GOOD_FOR.get(trial.measurement.stage, "legal")
    is_faster = trial.secs < incumbent_secs
    return "faster" if is_faster else "correct"


def unread(reply: Reply, refused: Sequence[Refused]) -> Iterator[Outcome]:
    """What of a reply is no proposal."""
    if reply.error:
        yield Outcome("", "", "", stage="reply", code="E_ENDPOINT", reason=reply.error)
    for one in refused:
        verdict = one.verdict
        yield Outcome("", "", one.piece, "", "reply", verdict.code, verdict.reason)
