# SPDX-License-Identifier: Apache-2.0
"""The programs that a prompt names: measured ones, and first guesses to start from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from kope_tvm.context import Context, Trial
from kope_tvm.prompt.notes import Notes, program_text, state_text
from kope_tvm.proposal import lane_of
from kope_tvm.space import Space
from kope_tvm.workbench import Workbench

_MAX_PROGRAMS = 4
_MAX_SECONDS = 2
"""Programs beside the incumbent that were measured, each of another space."""


@dataclass(frozen=True)
class Program:
    """One program under the name that a reply calls it by."""

    name: str
    text: str = field(repr=False)
    """JSON `{"lane", "space", "text", "state"}`."""
    lane: str
    space: Space | None = None
    """Its knobs; None in lanes without."""
    trial: Trial | None = None
    """None where it was not measured."""


def programs(context: Context, bench: Workbench, notes: Notes) -> tuple[Program, ...]:
    """Four at most, under the names that a reply calls them by.

    `s1` is the incumbent, `s2`, `s3` the next best of other spaces, `r1`... first guesses of rules
    not tried yet, `k1` a setting of MetaSchedule's own space.
    """
    measured = _measured(context, notes)
    chosen = [*_measured_programs(measured, notes)]
    seen = {program.space.structure for program in chosen if program.space}
    chosen += _guesses(bench, seen)
    chosen += _sketch(measured, bench, seen)
    return tuple(chosen[:_MAX_PROGRAMS])


def _measured(context: Context, notes: Notes) -> list[Trial]:
    done = [trial for trial in context.trials if trial.measurement and trial.measurement.ok]
    return sorted(done, key=lambda trial: trial.secs)


def _measured_programs(measured: list[Trial], notes: Notes) -> Iterator[Program]:
    seen: set[str] = set()
    for trial in measured:
        space = notes.space(trial)
        kind = space.structure if space else lane_of(trial.proposal)
        if kind in seen:
            continue
        seen.add(kind)
        name = f"s{len(seen)}"
        yield Program(name, state_text(trial), lane_of(trial.proposal), space, trial)
        if len(seen) > _MAX_SECONDS:
            return


def _guesses(bench: Workbench, seen: set[str]) -> Iterator[Program]:
    fresh = [space for space in bench.rule_spaces if space.structure not in seen]
    for number, space in enumerate(fresh, start=1):
        yield Program(f"r{number}", _text(space), "decisions", space)


def _sketch(measured: list[Trial], bench: Workbench, seen: set[str]) -> Iterator[Program]:
    """Only where MetaSchedule has made its spaces already: it takes a second to."""
    if "sketch_spaces" not in vars(bench):
        return
    fresh = [space for space in bench.sketch_spaces if space.structure not in seen]
    for space in fresh[:1]:
        yield Program("k1", _text(space), "decisions", space)


def _text(space: Space) -> str:
    return program_text("decisions", space.name, space.trace)
