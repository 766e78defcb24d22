# SPDX-License-Identifier: Apache-2.0
"""How a batch is shared between proposers."""

from __future__ import annotations

from collections.abc import Sequence

from kope_tvm.context import Context, Trial
from kope_tvm.outcome import Measurement, accept
from kope_tvm.panel import Panel
from kope_tvm.proposal import Decisions, Origin, Proposal
from kope_tvm.target import TargetSpec
from kope_tvm.task import Task


class _Supply:
    """A proposer with a fixed number of proposals left."""

    def __init__(self, name: str, left: int) -> None:
        self.name = name
        self.left = left

    def propose(self, context: Context) -> Sequence[Proposal]:
        count = min(self.left, context.num_wanted)
        self.left -= count
        return [Decisions("s", f"{self.name}{i}", Origin(self.name)) for i in range(count)]


def _context(wanted: int) -> Context:
    task = Task("t", "0", "", TargetSpec("host", {}))
    return Context(task, round_no=1, num_wanted=wanted, trials_left=99, seed=1)


def _counts(proposals: Sequence[Proposal]) -> dict[str, int]:
    names = [proposal.origin.proposer for proposal in proposals]
    return {name: names.count(name) for name in dict.fromkeys(names)}


def _panel(rules: int, experience: int, sketch: int) -> Panel:
    supplies = {"rules": rules, "experience": experience, "sketch": sketch}
    return Panel({name: _Supply(name, left) for name, left in supplies.items()})


def test_rules_come_first_and_sketch_keeps_its_quarter() -> None:
    assert _counts(_panel(99, 99, 99).propose(_context(8))) == {"rules": 6, "sketch": 2}


def test_what_one_leaves_over_goes_to_the_next() -> None:
    assert _counts(_panel(2, 0, 99).propose(_context(8))) == {"rules": 2, "sketch": 6}
    assert _counts(_panel(0, 99, 0).propose(_context(8))) == {"experience": 8}


def test_a_proposer_that_finds_nothing_better_gets_less() -> None:
    panel = _panel(0, 999, 999)
    for _ in range(30):
        poor = Trial(
            "s", Decisions("s", "", Origin("experience")), accept("d"), Measurement((2.0,))
        )
        panel.credit(poor, best_secs=1.0)
    counts = _counts(panel.propose(_context(16)))
    assert counts["experience"] <= 2
    assert counts["sketch"] >= 14


def test_a_batch_of_one_goes_to_the_first_that_has_something() -> None:
    assert _counts(_panel(0, 1, 1).propose(_context(1))) == {"experience": 1}
