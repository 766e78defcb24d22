# SPDX-License-Identifier: Apache-2.0
"""The live side of one task: its module, its design spaces, and proposals applied to it."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import tvm
import tvm_ffi
from tvm.s_tir import Schedule, Trace

from kope_tvm import registry
from kope_tvm.candidate import Candidate
from kope_tvm.code_form import leave_open
from kope_tvm.features import features
from kope_tvm.intrinsics import register_intrinsics_of
from kope_tvm.memory.experience import Experience
from kope_tvm.mlir import combiners  # noqa: F401  (registers what traces take apart)
from kope_tvm.outcome import Verdict, refuse
from kope_tvm.plan.schedule import planned
from kope_tvm.proposal import (
    Decisions,
    Origin,
    Plan,
    Proposal,
    Rewrite,
    lane_of,
    proposal_from,
    proposal_text,
    space_of,
)
from kope_tvm.rewrite.parse import rewritten
from kope_tvm.schedule_error import TVM_ERRORS as TVM_ERRORS
from kope_tvm.schedule_error import first_line as first_line
from kope_tvm.schedules import tensorized  # noqa: F401  (registers what traces tensorize with)
from kope_tvm.space import Space
from kope_tvm.target import TargetSpec
from kope_tvm.task import Task

_MOST_KEPT = 32

_LOG = logging.getLogger("kope_tvm")


def make_task(name: str, mod: tvm.IRModule, target: TargetSpec, weight: float = 1.0) -> Task:
    """The plain-data task of a module whose only function is `main`."""
    return Task(name, state_of(mod), tvm.ir.save_json(mod), target, features(mod), weight)


def state_of(mod: tvm.IRModule) -> str:
    """Structural hash, the same in every process."""
    return f"{tvm_ffi.structural_hash(mod) & (2**64 - 1):016x}"


def trace_text(trace: Trace, *, remove_postproc: bool = False) -> str:
    """A trace as the JSON text that proposals carry."""
    return json.dumps(trace.as_json(remove_postproc), default=_number)


def _number(value: Any) -> int | float:
    return int(value) if type(value).__name__ == "IntImm" else float(value.value)


class Workbench:
    """Applies proposals of any lane to one task."""

    def __init__(self, task: Task, *, seed: int = 1) -> None:
        self.task = task
        self.seed = seed
        self.mod = tvm.ir.load_json(task.mod_json)
        self.tvm_target = tvm.target.Target(dict(task.target.tvm_target))
        register_intrinsics_of(str(self.tvm_target.kind.name))
        self._rewrites: dict[str, Workbench | Verdict] = {}
        self._applied: dict[tuple[str, str, str], Candidate | Verdict] = {}
        """What was applied last: the round, the prompt and the finals ask for the same ones."""

    @property
    def untouched(self) -> Trace:
        """A trace that changes nothing; not an empty one, which MetaSchedule's database drops."""
        sch = Schedule(self.mod)
        sch.get_sblock("root")
        return sch.trace

    @cached_property
    def rule_spaces(self) -> tuple[Space, ...]:
        """The design spaces of the rules that know this function, first guesses in place."""
        found: list[Space] = []
        for name in registry.names("schedules"):
            for number, sch in enumerate(self._scheduled(name)):
                label = f"rule:{name}" + (f"#{number}" if number else "")
                found.append(Space(label, trace_text(sch.trace)))
        return tuple(found)

    def _scheduled(self, rule: str) -> Sequence[Schedule]:
        """A rule that trips over an odd function loses its say there, and nothing else."""
        try:
            with self.tvm_target:
                rules = registry.load("schedules", rule)
                return self._open(list(rules(self.mod["main"], self.task.target)))
        except TVM_ERRORS as error:
            _LOG.warning("rule %s on %s: %s", rule, self.task.name, first_line(error))
            return ()

    def _open(self, schedules: Sequence[Schedule]) -> Sequence[Schedule]:
        for sch in schedules:
            leave_open(sch, self.task.target.code_choices)
        return schedules

    @cached_property
    def tune_context(self) -> Any:
        """MetaSchedule's own context of the task: its spaces and postprocessors."""
        from kope_tvm.sketch_space import sketch_context

        return sketch_context(self.mod, self.tvm_target, self.task.name, self.seed)

    @cached_property
    def sketch_spaces(self) -> tuple[Space, ...]:
        """MetaSchedule's own design spaces of the task."""
        return tuple(Space("sketch", trace_text(sch.trace)) for sch in self.sketch_schedules)

    @cached_property
    def sketch_schedules(self) -> Sequence[Schedule]:
        """The same as live schedules; none where MetaSchedule cannot make any of the function."""
        try:
            return self._open(list(self.tune_context.generate_design_space()))
        except TVM_ERRORS as error:
            _LOG.warning("no sketch of %s: %s", self.task.name, first_line(error))
            return ()

    def apply(self, proposal: Proposal) -> Candidate | Verdict:
        """Replay a proposal on the untuned function; a refusal says what TVM found."""
        key = lane_of(proposal), space_of(proposal), proposal_text(proposal)
        if key not in self._applied:
            if len(self._applied) >= _MOST_KEPT:
                del self._applied[next(iter(self._applied))]
            self._applied[key] = self._anew(proposal)
        known = self._applied[key]
        return replace(known, proposal=proposal) if isinstance(known, Candidate) else known

    def _anew(self, proposal: Proposal) -> Candidate | Verdict:
        if isinstance(proposal, Rewrite):
            return self._rewritten(proposal)
        sch = self._schedule()
        try:
            with self.tvm_target:
                refusal = self._scheduled_by(proposal, sch)
        except TVM_ERRORS as error:
            return refuse("apply", "E_REPLAY", first_line(error))
        return refusal or Candidate(proposal, state_of(sch.mod), sch)

    def _scheduled_by(self, proposal: Decisions | Plan, sch: Schedule) -> Verdict | None:
        if isinstance(proposal, Plan):
            refusal = planned(proposal, sch)
            if refusal is None:
                leave_open(sch, self.task.target.code_choices)
            return refusal
        return self._replay(proposal, sch)

    def _rewritten(self, proposal: Rewrite) -> Candidate | Verdict:
        bench = self.rewritten(proposal.script)
        if isinstance(bench, Verdict):
            return bench
        found = bench.apply(proposal.then or Decisions("", trace_text(bench.untouched)))
        if isinstance(found, Verdict):
            return found
        return replace(found, proposal=proposal, base=bench.mod)

    def rewritten(self, script: str) -> Workbench | Verdict:
        """The bench of a rewritten function, a workload of its own; refused where it is none."""
        if script not in self._rewrites:
            mod = rewritten(script, self.mod)
            self._rewrites[script] = (
                mod
                if isinstance(mod, Verdict)
                else Workbench(make_task(self.task.name, mod, self.task.target), seed=self.seed)
            )
        return self._rewrites[script]

    def _schedule(self) -> Schedule:
        return Schedule(self.mod, seed=self.seed, debug_mask="none", error_render_level="detail")

    def _replay(self, proposal: Decisions, sch: Schedule) -> Verdict | None:
        Trace.apply_json_to_schedule(json.loads(proposal.trace), sch)
        if proposal.space == "sketch" and '"EnterPostproc"' not in proposal.trace:
            sch.enter_postproc()
            if not all(post.apply(sch) for post in self._postprocs):
                return refuse("apply", "E_POSTPROC", "a postprocessor of MetaSchedule refused it")
        return None

    @cached_property
    def _postprocs(self) -> tuple[Any, ...]:
        return tuple(self.tune_context.space_generator.postprocs)


def proposal_of(experience: Experience) -> Proposal:
    """The proposal that an experience was made from; raises ValueError where it was none."""
    origin = Origin(experience.proposer, experience.parent, experience.change, experience.cites)
    return proposal_from(experience.lane, experience.space, experience.proposal, origin)


def replayed(bench: Workbench, experience: Experience) -> Candidate | None:
    """An experience applied again to the task it was made on; None where it no longer applies."""
    try:
        candidate = bench.apply(proposal_of(experience))
    except ValueError:
        return None
    return None if isinstance(candidate, Verdict) else candidate
