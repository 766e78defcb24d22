# SPDX-License-Identifier: Apache-2.0
"""Random programs out of MetaSchedule's own design spaces of a function, each another one."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass

from tvm.s_tir import Schedule

from kope_tvm.candidate import Candidate
from kope_tvm.proposal import Decisions, Origin
from kope_tvm.workbench import TVM_ERRORS, Workbench, trace_text

_MOST_IN_VAIN = 96
"""Draws in a row without a new program: the spaces are used up."""
_APART = 1_000_003
"""Between the draws of two seeds."""


@dataclass(frozen=True)
class Draw:
    """One program, and where the draws stand after it."""

    candidate: Candidate
    number: int
    secs: float
    """What drawing and applying it took, draws in vain included."""


def draw(bench: Workbench, seed: int, number: int, known: Collection[str]) -> Draw | None:
    """The next program whose state is not `known`; None where the spaces are used up.

    A random setting that MetaSchedule itself cannot apply, or refuses, is no candidate.
    """
    spaces = bench.sketch_schedules
    began = time.perf_counter()
    for at in range(number + 1, number + 1 + (_MOST_IN_VAIN if spaces else 0)):
        trace = _random_trace(bench, spaces[at % len(spaces)], seed * _APART + at)
        if trace is None:
            continue
        candidate = bench.apply(Decisions("sketch", trace, Origin("random")))
        if isinstance(candidate, Candidate) and candidate.state not in known:
            return Draw(candidate, at, time.perf_counter() - began)
    return None


def _random_trace(bench: Workbench, space: Schedule, seed: int) -> str | None:
    sch = Schedule(bench.mod, seed=seed, debug_mask="none", error_render_level="none")
    try:
        with bench.tvm_target:
            space.trace.apply_to_schedule(sch, remove_postproc=True, decision_provider=_anew)
    except TVM_ERRORS:
        return None
    return trace_text(sch.trace)


def _anew(*_: object) -> None:
    """Have every sampling instruction choose again."""
