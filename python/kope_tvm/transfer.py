# SPDX-License-Identifier: Apache-2.0
"""What an experience becomes on the task and the machine at hand: replayed, or carried over."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from tvm.s_tir import Schedule, Trace

from kope_tvm.memory.experience import Experience, Recalled
from kope_tvm.memory.memory import Memory
from kope_tvm.memory.rows import Machine, experience_key
from kope_tvm.plan.transferred import transferred
from kope_tvm.proposal import (
    Decisions,
    Origin,
    Plan,
    Proposal,
    proposal_from,
    space_of,
    with_origin,
)
from kope_tvm.relative.carried import Place, carried, vectors_of
from kope_tvm.relative.plans import relative_plan, resized_plan
from kope_tvm.relative.roles import wiring
from kope_tvm.relative.wording import Relative
from kope_tvm.relative.yardstick import Yardstick
from kope_tvm.schedule_error import TVM_ERRORS
from kope_tvm.schedules.analysis import analyse
from kope_tvm.space import Space, log_gap
from kope_tvm.workbench import Workbench, trace_text

_OPERATOR = re.compile(r"rule:(.+)_[a-z0-9]+(?:#\d+)?")
"""The operator that a rule's space is for, whatever the instruction set."""


class Transfer:
    """Makes proposals for one task out of what was recalled."""

    def __init__(self, bench: Workbench, memory: Memory | None) -> None:
        self._bench = bench
        self._memory = memory
        self._made: dict[str, tuple[Proposal, ...]] = {}
        """By the key of the experience."""

    def proposals(self, recalled: Recalled) -> tuple[Proposal, ...]:
        """The most promising first; none where nothing of it applies here."""
        key = experience_key(recalled.experience)
        if key not in self._made:
            self._made[key] = tuple(self._proposals(recalled, key))
        return self._made[key]

    def _proposals(self, recalled: Recalled, key: str) -> Iterator[Proposal]:
        source, task = recalled.experience, self._bench.task
        is_same_task = source.task_key == task.key
        is_here = source.machine_key == task.target.key
        change = f"recalled: {recalled.why}"
        parent = source.parent if is_same_task else ""
        origin = Origin("experience", parent, change, (source.state,))
        try:
            proposal = proposal_from(source.lane, source.space, source.proposal, origin)
        except ValueError:  # Written by a newer kope, or damaged.
            return
        if is_same_task and is_here:
            yield proposal
            return
        origin = replace(origin, source=key)
        spaces: set[str] = set()
        for moved, relative in self._carried(proposal, source):
            told = f"carried over: {relative.told()}"
            yield with_origin(moved, replace(origin, change=told, relative=relative.text()))
            spaces.add(space_of(moved))
        if is_same_task and (not spaces or space_of(proposal) in spaces):
            yield with_origin(proposal, origin)

    def _carried(
        self, proposal: Proposal, source: Experience
    ) -> Iterator[tuple[Proposal, Relative]]:
        made_on = self._yardstick(source)
        if isinstance(proposal, Decisions):
            space = Space(proposal.space, proposal.trace)
            for into in self._spaces(space, made_on):
                found = carried(space, made_on, into, self._place)
                if found is not None:
                    yield Decisions(into.name, found.space.trace), found.relative
        elif isinstance(proposal, Plan):
            moved = self._moved_plan(resized_plan(proposal, made_on, self._place.machine))
            if moved is not None:
                yield moved, relative_plan(proposal, made_on)

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
                Trace.apply_json_to_schedule([source.instructions, []], sch)
        except TVM_ERRORS:  # It names what only its own function has.
            return None
        return Space(source.name, trace_text(sch.trace))

    def _moved_plan(self, plan: Plan) -> Plan | None:
        try:
            with self._bench.tvm_target:
                return transferred(plan, None, Schedule(self._bench.mod))
        except TVM_ERRORS:  # The plan names what only its own function has.
            return None

    def _yardstick(self, source: Experience) -> Yardstick:
        known = self._machines.get(source.machine_key) or Machine.from_key(source.machine_key)
        return Yardstick.of(known.facts, source.features.dtypes)

    @cached_property
    def _machines(self) -> Mapping[str, Machine]:
        return self._memory.store.machines() if self._memory else {}

    @cached_property
    def _place(self) -> Place:
        task, analysis = self._bench.task, analyse(self._bench.mod["main"])
        blocks = {block.name: block for block in analysis.blocks} if analysis else {}
        return Place(Yardstick.of(task.target.facts, task.features.dtypes), blocks)


def _operator(space: Space) -> str:
    found = _OPERATOR.fullmatch(space.name)
    return found[1] if found else ""


def _same_wiring(ours: Space, theirs: Space) -> bool:
    return wiring(ours) == wiring(theirs)


def _same_skeleton(ours: Space, theirs: Space) -> bool:
    return ours.skeleton == theirs.skeleton


def _same_operator(ours: Space, theirs: Space) -> bool:
    """Rules vary their instructions with the vector length, not the order of their knobs."""
    return _operator(ours) == _operator(theirs) != ""
