# SPDX-License-Identifier: Apache-2.0
"""Who proposes scripts without a model: what is remembered, and steps from the fastest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kope_tvm.candidate import Candidate
from kope_tvm.memory.experience import Recalled
from kope_tvm.memory.memory import Memory
from kope_tvm.memory.rows import experience_key
from kope_tvm.mlir.crossing import tile_of
from kope_tvm.mlir.function import Function
from kope_tvm.mlir.recipe_space import Knobs
from kope_tvm.mlir.script_proposal import LANE, ScriptProposal, Tile, script_proposal_from
from kope_tvm.outcome import Measurement
from kope_tvm.proposal import Origin
from kope_tvm.transfer import Transfer


@dataclass(frozen=True)
class ScriptTrial:
    """One proposal and what became of it."""

    state: str
    proposal: ScriptProposal
    measurement: Measurement

    @property
    def secs(self) -> float:
        return self.measurement.secs

    @property
    def code(self) -> str:
        return self.measurement.code

    @property
    def reason(self) -> str:
        return self.measurement.error

    @property
    def suspicious(self) -> bool:
        return self.measurement.suspicious


class ScriptProposer(Protocol):
    """Proposes at most `wanted` scripts, best first, in view of what was tried."""

    def propose(self, trials: Sequence[ScriptTrial], wanted: int) -> Sequence[ScriptProposal]: ...


@dataclass
class Remembered:
    """Recalled scripts as they are where they are this function's, and tiles from anywhere."""

    function: Function
    memory: Memory
    _is_done: bool = False

    def propose(self, trials: Sequence[ScriptTrial], wanted: int) -> Sequence[ScriptProposal]:
        """All that the memory has, once."""
        if self._is_done or trials:
            return ()
        self._is_done = True
        return list(self._found())[:wanted]

    def _found(self) -> Iterator[ScriptProposal]:
        bench = self.function.bench
        transfer = Transfer(bench, self.memory)
        for recalled in self.memory.recall(bench.task):
            if recalled.experience.code or recalled.experience.suspicious:
                continue
            if recalled.experience.lane == LANE:
                yield from self._script(recalled)
                continue
            for proposal in transfer.proposals(recalled):
                applied = bench.apply(proposal)
                tile = tile_of(applied, bench.mod) if isinstance(applied, Candidate) else None
                if tile is not None:
                    yield self._tiled(tile, recalled)

    def _script(self, recalled: Recalled) -> Iterator[ScriptProposal]:
        source = recalled.experience
        try:
            found = script_proposal_from(source.proposal, _origin(recalled))
        except ValueError:  # Written by a newer kope, or damaged.
            return
        if source.task_key == self.function.bench.task.key:
            yield found
        elif found.tile is not None:
            yield self._tiled(found.tile, recalled)

    def _tiled(self, tile: Tile, recalled: Recalled) -> ScriptProposal:
        space = self.function.space
        knobs = space.nearest_to(tile.rows, tile.columns, tile.depth)
        return of_knobs(self.function, knobs, _origin(recalled))


@dataclass
class Search:
    """The first guess, then every step away from the fastest so far."""

    function: Function
    _said: set[str] = field(default_factory=set)

    def propose(self, trials: Sequence[ScriptTrial], wanted: int) -> Sequence[ScriptProposal]:
        """Nothing that was tried already."""
        self._said |= {trial.proposal.text() for trial in trials}
        found: list[ScriptProposal] = []
        for proposal in self._ideas(trials):
            if len(found) == wanted:
                break
            if proposal.text() not in self._said:
                self._said.add(proposal.text())
                found.append(proposal)
        return found

    def _ideas(self, trials: Sequence[ScriptTrial]) -> Iterator[ScriptProposal]:
        space = self.function.space
        yield of_knobs(self.function, space.first, Origin("rules", change="first guess"))
        right = sorted((trial for trial in trials if trial.measurement.ok), key=lambda t: t.secs)
        for parent in right:
            recipe = parent.proposal.recipe
            knobs = space.knobs_of(recipe) if recipe is not None else None
            for moved in space.neighbours(knobs) if knobs is not None else ():
                change = _difference(knobs, moved)
                yield of_knobs(self.function, moved, Origin("search", parent.state, change))


def of_knobs(function: Function, knobs: Knobs, origin: Origin) -> ScriptProposal:
    """The recipe that knobs stand for, with their tile."""
    tile = Tile(knobs.rows, knobs.columns, knobs.depth)
    return ScriptProposal(function.space.recipe(knobs), tile=tile, origin=origin)


def _origin(recalled: Recalled) -> Origin:
    source = recalled.experience
    change = f"recalled: {recalled.why}"
    return Origin("experience", "", change, (source.state,), source=experience_key(source))


def _difference(one: Knobs | None, other: Knobs) -> str:
    before = vars(one) if one is not None else {}
    changed = [name for name, value in vars(other).items() if before.get(name) != value]
    return ", ".join(f"{name} {before.get(name)} -> {vars(other)[name]}" for name in changed)
