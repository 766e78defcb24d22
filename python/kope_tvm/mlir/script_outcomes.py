# SPDX-License-Identifier: Apache-2.0
"""How far a model's script came, in the words of an exchange."""

from __future__ import annotations

from math import isfinite

from kope_tvm.chat.dialogue import Outcome
from kope_tvm.mlir.script_proposal import LANE, SPACE, ScriptProposal
from kope_tvm.mlir.script_proposers import ScriptTrial

_NOT_APPLIED = frozenset({"E_SCRIPT", "E_SIGNATURE", "E_TRANSFORM"})
"""Refusals of what could be read but not applied."""


def outcome_of(trial: ScriptTrial, incumbent_secs: float) -> Outcome:
    """The outcome of a trial; `incumbent_secs` is the best before it, infinity for none."""
    measured = trial.measurement
    return Outcome(
        LANE,
        SPACE,
        trial.proposal.text(),
        trial.state,
        _stage(trial, incumbent_secs),
        measured.code,
        measured.error,
        trial.secs if measured.ok else 0.0,
        incumbent_secs if isfinite(incumbent_secs) else 0.0,
    )


def said_before(proposal: ScriptProposal) -> Outcome:
    """The outcome of a proposal that was made already."""
    reason = "proposed before in this run"
    return Outcome(LANE, SPACE, proposal.text(), code="E_REPEAT", reason=reason)


def _stage(trial: ScriptTrial, incumbent_secs: float) -> str:
    measured = trial.measurement
    if measured.ok:
        return "faster" if trial.secs < incumbent_secs else "correct"
    if measured.stage == "build":
        return "parsed" if measured.code in _NOT_APPLIED else "legal"
    return "built"
