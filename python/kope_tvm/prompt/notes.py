# SPDX-License-Identifier: Apache-2.0
"""What prompts of one task have in common, worked out once: trees, menus, settings of trials."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from weakref import WeakKeyDictionary

from tvm.s_tir import Schedule

from kope_tvm.candidate import Candidate
from kope_tvm.context import Trial
from kope_tvm.plan.menu import Move, legal_moves
from kope_tvm.prompt.knobs import KnobLine, knob_lines
from kope_tvm.prompt.loop_tree import LoopTree, loop_tree
from kope_tvm.proposal import (
    Decisions,
    Proposal,
    Rewrite,
    lane_of,
    proposal_text,
    space_of,
)
from kope_tvm.space import Space
from kope_tvm.workbench import Workbench


@dataclass(frozen=True)
class Shape:
    """What became of the function; nothing where the proposal no longer applies."""

    rewritten: LoopTree | None = None
    """The function of a Rewrite before it is scheduled."""
    outline: LoopTree | None = None
    """The scheduled function, without what was shown of it before."""


class Notes:
    """One task's; kept as long as its workbench."""

    def __init__(self, bench: Workbench) -> None:
        self._mod = bench.mod
        self._shapes: dict[str, Shape] = {}
        self._spaces: dict[str, Space] = {}
        self._lines: dict[str, tuple[KnobLine, ...]] = {}

    @cached_property
    def tree(self) -> LoopTree:
        """Of the untuned function."""
        return loop_tree(self._mod)

    @cached_property
    def moves(self) -> tuple[Move, ...]:
        """What could be done to the untuned function."""
        return legal_moves(Schedule(self._mod, debug_mask="none", error_render_level="none"))

    def shape(self, trial: Trial, bench: Workbench) -> Shape:
        """What a trial made of the function, as trees."""
        if trial.state not in self._shapes:
            self._shapes[trial.state] = self._applied(trial.proposal, bench)
        return self._shapes[trial.state]

    def _applied(self, proposal: Proposal, bench: Workbench) -> Shape:
        applied = bench.apply(proposal)
        if not isinstance(applied, Candidate):
            return Shape()
        rewritten = loop_tree(applied.base) if isinstance(proposal, Rewrite) else None
        if isinstance(proposal, Rewrite) and proposal.then is None:
            return Shape(rewritten)
        known = frozenset((rewritten or self.tree).blocks)
        return Shape(rewritten, loop_tree(applied.sch.mod, known))

    def space(self, trial: Trial) -> Space | None:
        """The setting that a trial was; None in the other lanes."""
        proposal = trial.proposal
        return self.space_of(proposal) if isinstance(proposal, Decisions) else None

    def space_of(self, proposal: Decisions) -> Space:
        """The setting as a space, parsed once."""
        if proposal.trace not in self._spaces:
            self._spaces[proposal.trace] = Space(proposal.space, proposal.trace)
        return self._spaces[proposal.trace]

    def knob_lines(self, space: Space) -> tuple[KnobLine, ...]:
        """The knobs of a space with what they do."""
        if space.trace not in self._lines:
            self._lines[space.trace] = knob_lines(space, dict(self.tree.loops))
        return self._lines[space.trace]


_NOTES: WeakKeyDictionary[Workbench, Notes] = WeakKeyDictionary()


def notes_of(bench: Workbench) -> Notes:
    """The notes of a workbench's task."""
    if bench not in _NOTES:
        _NOTES[bench] = Notes(bench)
    return _NOTES[bench]


def state_text(trial: Trial) -> str:
    """What `Request.states` holds of a trial, as JSON."""
    proposal = trial.proposal
    return program_text(lane_of(proposal), space_of(proposal), proposal_text(proposal), trial.state)


def program_text(lane: str, space: str, text: str, state: str = "") -> str:
    """A named program as JSON; `state` is empty for one that was not measured."""
    return json.dumps({"lane": lane, "space": space, "text": text, "state": state})
