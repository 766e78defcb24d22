# SPDX-License-Identifier: Apache-2.0
"""The prompt of a repair turn: what was proposed, how it failed, what mended the like before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from kope_tvm.context import Trial
from kope_tvm.prompt.brief import Brief, packed_brief
from kope_tvm.prompt.item import Item, required
from kope_tvm.prompt.notes import state_text
from kope_tvm.prompt.packing import Part
from kope_tvm.prompt.program import Program
from kope_tvm.prompt.reply import Refused
from kope_tvm.prompt.schema import reply_schema
from kope_tvm.prompt.sections.incumbent import knob_text
from kope_tvm.prompt.sections.tried import failure_of
from kope_tvm.prompt.step_line import line_of
from kope_tvm.prompt.texts import text
from kope_tvm.prompt.view import Fix, View, reply_tokens
from kope_tvm.proposal import Decisions, Plan, Proposal, lane_of

MOST_TOKENS = 1500
"""But for a rewrite, whose script is shown whole."""
FAILED = "f1"
"""What the failed program is called where the mended one may start from it."""
_REASON_CHARS = 300
_FIX_CHARS = 160
_MOST_FIXES = 4


def repair_brief(view: View, failed: Trial, mismatch: str = "", fixes: Sequence[Fix] = ()) -> Brief:
    """Ask for another go at a trial that failed; `mismatch` says where its results are wrong."""
    lane = lane_of(failed.proposal)
    code, reason, _ = failure_of(failed)
    failure = f"{code} {reason[:_REASON_CHARS]}" + (f"\n{mismatch}" if mismatch else "")
    program = _program(failed, view)
    states = {FAILED: program.text} if program else {}
    proposed = "\n".join(_shown(failed.proposal, view))
    return _brief(view, lane, (proposed, failure), fixes, states, program)


def refusal_brief(view: View, refused: Refused, fixes: Sequence[Fix] = ()) -> Brief:
    """Ask again for a piece of a reply that could not be read as a proposal."""
    states = {program.name: program.text for program in view.programs}
    failure = str(refused.verdict)[:_REASON_CHARS]
    return _brief(view, "", (refused.piece, failure), fixes, states, None)


def _brief(
    view: View,
    lane: str,
    told: tuple[str, str],
    fixes: Sequence[Fix],
    states: Mapping[str, str],
    program: Program | None,
) -> Brief:
    lanes = (lane,) if lane else view.lanes
    proposed, failure = told
    # A script to mend is an example of its own.
    formats = ["mend_rewrite"] if lane == "rewrite" else [f"lane_{one}" for one in lanes]
    system = "\n".join(text(name) for name in ("repair", *formats))
    parts = [
        Part("contract", "", (required(system),)),
        Part("failure", "How it failed", (required(failure),)),
        Part("proposed", "What was proposed", (required(proposed),)),
        Part("fixes", "What was done about such failures before", tuple(_fixes(fixes))),
    ]
    programs = view.programs if not lane else (program,) if program else ()
    schema = reply_schema(lanes, programs, view.notes)
    most = view.limit_tokens if lane == "rewrite" else min(view.limit_tokens, MOST_TOKENS)
    packed = packed_brief(parts, schema, states, most)
    return replace(packed, reply_tokens=reply_tokens(lanes))


def _program(failed: Trial, view: View) -> Program | None:
    """Only a setting is changed from what it was; plans and scripts are written anew."""
    if not isinstance(failed.proposal, Decisions):
        return None
    return Program(FAILED, state_text(failed), "decisions", view.notes.space(failed), failed)


def _shown(proposal: Proposal, view: View) -> Iterator[str]:
    if isinstance(proposal, Decisions):
        yield from _shown_setting(proposal, view)
    elif isinstance(proposal, Plan):
        for number, step in enumerate(proposal.steps, 1):
            yield f"{number}. {line_of(step.primitive, step.args)}"
    else:
        yield proposal.script.strip()
        if isinstance(proposal.then, Plan):
            yield "steps:"
            yield from _shown(proposal.then, view)


def _shown_setting(proposal: Decisions, view: View) -> Iterator[str]:
    trial_space = view.notes.space_of(proposal)
    yield f"{FAILED}: {proposal.space}" + (
        f", {proposal.origin.change}" if proposal.origin.change else ""
    )
    for line in view.notes.knob_lines(trial_space):
        yield knob_text(line)


def _fixes(fixes: Sequence[Fix]) -> Iterator[Item]:
    for number, fix in enumerate(fixes[:_MOST_FIXES]):
        result = "worked" if fix.worked else "did not help"
        said = f"{fix.reason[:_FIX_CHARS]} -> {fix.change[:_FIX_CHARS]}: {result}"
        yield Item(said, value=100 / (1 + number))
