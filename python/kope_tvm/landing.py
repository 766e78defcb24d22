# SPDX-License-Identifier: Apache-2.0
"""Where decisions made elsewhere come down on one workbench: which of its spaces, which values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property

from tvm.s_tir import Schedule, Trace

from kope_tvm.code_form import leave_open
from kope_tvm.outcome import Verdict
from kope_tvm.plan.transferred import transferred
from kope_tvm.proposal import Decisions, Plan, Proposal, Rewrite
from kope_tvm.relative.carried import Place, carried, vectors_of
from kope_tvm.relative.plans import relative_plan, resized_plan
from kope_tvm.relative.roles import wiring
from kope_tvm.relative.wording import Relative
from kope_tvm.relative.yardstick import Yardstick
from kope_tvm.rewrite.forms import forms
from kope_tvm.schedule_error import TVM_ERRORS
from kope_tvm.schedules.analysis import analyse
from kope_tvm.space import Space, log_gap
from kope_tvm.workbench import Workbench, trace_text

_OPERATOR = re.compile(r"rule:(.+)_[a-z0-9]+(?:#\d+)?")
"""The operator that a rule's space is for, whatever the instruction set."""

Landed = Iterator[tuple[Proposal, Relative]]
"""Proposals for the workbench, each with what was carried over."""


class Landing:
    """One workbench, as decisions of other tasks and machines find it."""

    def __init__(self, bench: Workbench) -> None:
        self._bench = bench

    def landed(self, proposal: Proposal, made_on: Yardstick) -> Landed:
        """What becomes here of a proposal of another task or machine, the likeliest first."""
        if isinstance(proposal, Decisions):
            yield from self._decisions(proposal, made_on)
        elif isinstance(proposal, Plan):
            moved = self._moved_plan(resized_plan(proposal, made_on, self._place.machine))
            if moved is not None:
                yield moved, relative_plan(proposal, made_on)
        elif proposal.then is not None:
            yield from self._rewrite(proposal.then, made_on)

    def landed_on(self, script: str, then: Decisions | Plan, made_on: Yardstick) -> Landed:
        """The same for what schedules a rewritten function, where `script` rewrites this one."""
        inner = self._bench.rewritten(script)
        if isinstance(inner, Verdict):
            return
        for moved, relative in Landing(inner).landed(then, made_on):
            if not isinstance(moved, Rewrite):
                yield Rewrite(script, moved), relative

    def _rewrite(self, then: Decisions | Plan, made_on: Yardstick) -> Landed:
        """A script says another function: this one is rewritten by the algebra that fits it."""
        found = list(forms(str(self._bench.mod["main"].script()), self._bench.task.target))
        if not found:
            yield from self.landed(then, made_on)
        for form in found:
            yield from self.landed_on(form.script, then, made_on)

    def _decisions(self, proposal: Decisions, made_on: Yardstick) -> Landed:
        space = Space(proposal.space, proposal.trace)
        for into in self._spaces(space, made_on):
            found = carried(space, made_on, into, self._place)
            if found is not None:
                yield Decisions(into.name, found.space.trace), found.relative

    def _spaces(self, source: Space, made_on: Yardstick) -> Sequence[Space]:
        """The spaces here whose knobs most likely mean the same: alike in wiring, else in kind."""
        known = self._known_spaces(source)
        for is_alike in (_same_wiring, _same_skeleton, _same_operator):
            found = [space for space in known if is_alike(source, space)]
            if found:
                return self._nearest(source, made_on, found)
        adopted = None if _operator(source) else self._adopted(source)
        return [adopted] if adopted else []

    def _nearest(
        self, source: Space, made_on: Yardstick, known: Sequence[Space]
    ) -> Sequence[Space]:
        """Those whose own vectors fill as many registers; rules offer several widths."""
        wanted = vectors_of(source, made_on)
        gaps = [log_gap(vectors_of(space, self._place.machine), wanted) for space in known]
        return [space for space, gap in zip(known, gaps, strict=True) if gap == min(gaps)]

    def _known_spaces(self, source: Space) -> Sequence[Space]:
        if source.name == "sketch":
            return self._bench.sketch_spaces
        operator = _operator(source)
        return [
            space for space in self._bench.rule_spaces if operator and _operator(space) == operator
        ]

    def _adopted(self, source: Space) -> Space | None:
        """The trace of another task with decisions as this function allows them."""
        sch = Schedule(self._bench.mod, seed=self._bench.seed, debug_mask="none")
        try:
            with self._bench.tvm_target:
                Trace.apply_json_to_schedule([source.bare.instructions, []], sch)
            leave_open(sch, self._bench.task.target.code_choices)
        except TVM_ERRORS:  # It names what only its own function has.
            return None
        return Space(source.name, trace_text(sch.trace))

    def _moved_plan(self, plan: Plan) -> Plan | None:
        try:
            with self._bench.tvm_target:
                return transferred(plan, None, Schedule(self._bench.mod))
        except TVM_ERRORS:  # The plan names what only its own function has.
            return None

    @cached_property
    def _place(self) -> Place:
        task, analysis = self._bench.task, analyse(self._bench.mod["main"])
        blocks = {block.name: block for block in analysis.blocks} if analysis else {}
        return Place(Yardstick.of(task.target.facts, task.features.dtypes), blocks)


def _operator(space: Space) -> str:
    found = _OPERATOR.fullmatch(space.name)
    return found[1] if found else ""


def _same_wiring(ours: Space, theirs: Space) -> bool:
    return wiring(ours.bare) == wiring(theirs.bare)


def _same_skeleton(ours: Space, theirs: Space) -> bool:
    return ours.bare.skeleton == theirs.bare.skeleton


def _same_operator(ours: Space, theirs: Space) -> bool:
    """Rules vary their instructions with the vector length, not the order of their knobs."""
    return _operator(ours) == _operator(theirs) != ""
