# SPDX-License-Identifier: Apache-2.0
"""What an experience becomes on the task and the machine at hand: replayed, or carried over."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property

from kope_tvm.landing import Landed, Landing
from kope_tvm.memory.experience import Experience, Recalled
from kope_tvm.memory.memory import Memory
from kope_tvm.memory.rows import Machine, experience_key
from kope_tvm.mlir.crossing import plan_of
from kope_tvm.mlir.script_proposal import LANE
from kope_tvm.proposal import (
    Origin,
    Proposal,
    Rewrite,
    proposal_from,
    space_of,
    with_origin,
)
from kope_tvm.relative.yardstick import Yardstick
from kope_tvm.workbench import Workbench


class Transfer:
    """Makes proposals for one task out of what was recalled."""

    def __init__(self, bench: Workbench, memory: Memory | None) -> None:
        self._bench = bench
        self._landing = Landing(bench)
        self._memory = memory
        self._made: dict[str, tuple[Proposal, ...]] = {}
        """By the key of the experience."""

    def proposals(self, recalled: Recalled) -> tuple[Proposal, ...]:
        """The most promising first; none where nothing of it applies here."""
        key = experience_key(recalled.experience)
        if key not in self._made:
            try:
                self._made[key] = tuple(self._proposals(recalled, key))
            except (ValueError, TypeError, LookupError):  # Written by a newer kope, or damaged.
                self._made[key] = ()
        return self._made[key]

    def _proposals(self, recalled: Recalled, key: str) -> Iterator[Proposal]:
        source, task = recalled.experience, self._bench.task
        is_same_task = source.task_key == task.key
        is_here = source.machine_key == task.target.key
        change = f"recalled: {recalled.why}"
        parent = source.parent if is_same_task else ""
        origin = Origin("experience", parent, change, (source.state,))
        if source.lane == LANE:
            plan = plan_of(source.proposal, self._bench.mod, replace(origin, source=key))
            yield from (plan,) if plan is not None else ()
            return
        proposal = proposal_from(source.lane, source.space, source.proposal, origin)
        if is_same_task and is_here:
            yield proposal
            return
        origin = replace(origin, source=key)
        spaces: set[str] = set()
        for moved, relative in self._landed(proposal, source, is_same_task=is_same_task):
            told = f"carried over: {relative.told()}"
            yield with_origin(moved, replace(origin, change=told, relative=relative.text()))
            spaces.add(space_of(moved))
        if is_same_task and (not spaces or space_of(proposal) in spaces):
            yield with_origin(proposal, origin)

    def _landed(self, proposal: Proposal, source: Experience, *, is_same_task: bool) -> Landed:
        made_on = self._yardstick(source)
        if is_same_task and isinstance(proposal, Rewrite) and proposal.then is not None:
            return self._landing.landed_on(proposal.script, proposal.then, made_on)
        return self._landing.landed(proposal, made_on)

    def _yardstick(self, source: Experience) -> Yardstick:
        known = self._machines.get(source.machine_key) or Machine.from_key(source.machine_key)
        return Yardstick.of(known.facts, source.features.dtypes)

    @cached_property
    def _machines(self) -> Mapping[str, Machine]:
        return self._memory.store.machines() if self._memory else {}
