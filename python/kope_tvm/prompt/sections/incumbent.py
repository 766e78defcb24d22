# SPDX-License-Identifier: Apache-2.0
"""The programs a reply may start from: the incumbent in detail, a few others in a line each."""

from __future__ import annotations

from collections.abc import Iterator

from kope_tvm.context import Trial
from kope_tvm.prompt.amounts import shown_secs, three_digits
from kope_tvm.prompt.item import Item, required
from kope_tvm.prompt.knobs import KnobLine, shown_value
from kope_tvm.prompt.program import Program
from kope_tvm.prompt.step_line import line_of
from kope_tvm.prompt.view import View
from kope_tvm.proposal import Plan, Rewrite

ORDER = 40
TITLE = "Programs"
_NEAR_ROOF = 0.8
_OUTLINE_CHARS = 700


def items(view: View) -> Iterator[Item]:
    """The incumbent's line and knobs are required, its outline and the others are not."""
    incumbent = view.incumbent
    if incumbent is None:
        yield required("Nothing was measured yet.")
    for program in view.programs:
        if program is incumbent:
            yield from _incumbent(program, view)
        else:
            yield Item(_other(program, view), value=90)


def _incumbent(program: Program, view: View) -> Iterator[Item]:
    assert program.trial is not None
    yield required(
        f"{program.name} the best: {_described(program)}, {_standing(program.trial, view)}"
    )
    body = "\n".join(_body(program, view))
    if body:
        yield required(body) if program.space else Item(body, value=250)
    outline = view.notes.shape(program.trial, view.bench).outline
    if outline is not None:
        lines = outline.shown(_OUTLINE_CHARS)
        marks = "its loops (p parallel, v vectorized, u unrolled; block names as above):"
        yield Item("\n".join([marks, *lines]), value=180)


def _described(program: Program) -> str:
    assert program.trial is not None
    origin = program.trial.proposal.origin
    what = program.space.name if program.space else program.lane
    return f"{what} by {origin.proposer}"


def _standing(trial: Trial, view: View) -> str:
    """Time, noise, headroom and gain, where known."""
    measured, context = trial.measurement, view.context
    assert measured is not None
    parts = [shown_secs(measured.secs)]
    if measured.noise:
        parts.append(f"noise {three_digits(measured.noise * 100)}%")
    if context.baseline_secs:
        parts.append(f"{three_digits(context.baseline_secs / measured.secs)}x over untuned")
    if context.roof_secs:
        share = context.roof_secs / measured.secs
        parts.append(f"{three_digits(share * 100)}% of the roof")
        if share > _NEAR_ROOF:
            parts.append("expect small gains")
    return ", ".join(parts)


def _body(program: Program, view: View) -> Iterator[str]:
    if program.space:
        lines = view.notes.knob_lines(program.space)
        yield from (knob_text(line) for line in lines)
        if not lines:
            yield "no knob of it has a second value"
        return
    assert program.trial is not None
    proposal = program.trial.proposal
    if isinstance(proposal, Rewrite):
        tree = view.notes.shape(program.trial, view.bench).rewritten
        yield from tree.shown(_OUTLINE_CHARS) if tree else ()
        proposal = proposal.then or proposal
    if isinstance(proposal, Plan):
        yield "; ".join(line_of(step.primitive, step.args) for step in proposal.steps)
    if "plan" in view.lanes:
        yield f'A plan with "from":"{program.name}" goes on from there.'


def knob_text(line: KnobLine) -> str:
    """A knob, its value, the legal ones, and what it does."""
    role = f": {line.role}" if line.role else ""
    return f"{line.name}={shown_value(line.knob)} {line.legal}{role}"


def _other(program: Program, view: View) -> str:
    """One line: its time if it was measured, and its knobs; for the form of code see the first."""
    time = (
        f"{shown_secs(program.trial.secs)}" if program.trial else "a first guess, not measured yet"
    )
    what = program.space.name if program.space else program.lane
    head = f"{program.name} {what}, {time}"
    if program.space is None:
        return head
    forms = program.space.forms.values()
    lines = [one for one in view.notes.knob_lines(program.space) if one.knob not in forms]
    knobs = "; ".join(knob_text(line) for line in lines)
    return f"{head}: {knobs or 'no knobs'}"
