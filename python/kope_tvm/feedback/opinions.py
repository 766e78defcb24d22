# SPDX-License-Identifier: Apache-2.0
"""Whether `llvm-mca` would choose another winner than the simulated machine does."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import tvm

from kope_tvm.device.program.link import Program, link
from kope_tvm.device.simulate.opinions.mca import mca_cycles
from kope_tvm.device.simulate.program import run_linked
from kope_tvm.errors import KopeError
from kope_tvm.feedback.simulated import program_of
from kope_tvm.schedule_error import TVM_ERRORS, first_line
from kope_tvm.target import TargetSpec

REVERSED = 1.5
"""So many times as long must the winner take by `llvm-mca` as one that it beats in simulation."""
_DISAGREE = "opinions disagree"


@dataclass(frozen=True)
class Opinion:
    """Cycles of one program on one core, by two models: `llvm-mca` knows no memory."""

    name: str
    simulated: float
    mca: float


def opinion(name: str, mod: tvm.IRModule, spec: TargetSpec) -> Opinion:
    """Both models on one module, compiled in this process."""
    alone = replace(spec, facts=replace(spec.facts, num_cores=1))
    return opinion_of(name, program_of(mod, alone), alone)


def opinion_of(name: str, program: Program, spec: TargetSpec) -> Opinion:
    """Both models on one program; KopeError where it does not end, or a tool is missing."""
    with tempfile.TemporaryDirectory(prefix="kope-") as scratch:
        folder = Path(scratch)
        made, profile = link(program, folder), folder / "profile"
        cycles = run_linked(made, spec, folder, profile).regions[-1].cycles
        return Opinion(name, float(cycles), mca_cycles(made, profile))


def dissent(winner: Opinion, others: Sequence[Opinion]) -> str:
    """A word where the two models reverse the winner and another one strongly; empty elsewhere."""
    beaten = [one for one in others if winner.simulated < one.simulated and one.mca > 0]
    worst = max(beaten, key=lambda one: winner.mca / one.mca, default=None)
    if worst is None or winner.mca <= REVERSED * worst.mca:
        return ""
    return (
        f"{_DISAGREE}: by llvm-mca the winner, {winner.name}, takes "
        f"{winner.mca / worst.mca:.2f}x as long as {worst.name}, which the simulated machine has "
        f"{worst.simulated / winner.simulated:.2f}x slower; measure both on a board"
    )


def is_dissent(word: str) -> bool:
    """Whether a second opinion speaks against the winner."""
    return word.startswith(_DISAGREE)


def second_opinion(finalists: Sequence[Callable[[], Opinion]]) -> str:
    """The word on the first of some finalists; that there is none, where a tool is missing."""
    if len(finalists) < 2:
        return ""
    try:
        winner, *others = [ask() for ask in finalists]
    except (KopeError, *TVM_ERRORS) as error:
        return f"no second opinion: {first_line(error)}"
    return dissent(winner, others)
