# SPDX-License-Identifier: Apache-2.0
"""What a page on a work_dir tells, as plain data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from kope_tvm.chat.exchanges import EXCHANGES, Exchange, read_exchanges
from kope_tvm.errors import KopeError, UsageError
from kope_tvm.feedback.roof import Roof, known_roof
from kope_tvm.gains import Gains
from kope_tvm.graph_view.tree import DecisionTree, decision_trees
from kope_tvm.machine import load_target
from kope_tvm.memory.experience import Experience
from kope_tvm.memory.graph import ExperienceGraph
from kope_tvm.memory.store import Store
from kope_tvm.memory.transfers import Transfer, transfers
from kope_tvm.memory.work_dirs import JOURNAL
from kope_tvm.performance import Comparison
from kope_tvm.report_page.tokens import SectionTokens, tokens_by_section
from kope_tvm.run_record import RunRecord, read_runs
from kope_tvm.settled import Settled
from kope_tvm.task import Features


@dataclass(frozen=True)
class TaskStory:
    """One function: what was tried, in time and as a tree, and how it ended."""

    tree: DecisionTree
    features: Features
    curve: tuple[float, ...]
    """Seconds of the best so far, one value a candidate that went to the device; infinity before
    the first right one.
    """
    comparison: Comparison | None
    """The fastest beside the untuned function; None where the finals were not held."""
    roof_secs: float
    """A lower bound of its time; 0 where the machine's roof is not known."""

    @property
    def name(self) -> str:
        return self.tree.task_name

    @property
    def gain(self) -> float:
        """Over the untuned function; 1.0 where that stays."""
        return self.comparison.gain if self.comparison and self.comparison.accepted else 1.0

    @property
    def best_secs(self) -> float:
        """Of what is right, as measured when it was tried; infinity where nothing is."""
        return self.curve[-1] if self.curve else float("inf")

    @property
    def share_of_roof(self) -> float:
        """1 is as fast as the machine can be; 0 where that is not known."""
        return self.roof_secs / self.best_secs if self.best_secs else 0.0


@dataclass(frozen=True)
class Story:
    """A work_dir."""

    work_dir: str
    tasks: tuple[TaskStory, ...]
    """The one with most time at stake first."""
    runs: tuple[RunRecord, ...]
    refusals: tuple[tuple[str, int], ...]
    """How many proposals came to nothing by which code, the most frequent first."""
    tokens: tuple[SectionTokens, ...]
    num_calls: int
    """Of a model."""
    num_replayed: int
    """Of those, answered from a record and not by a model."""
    transfers: tuple[Transfer, ...]
    roof: Roof | None

    @cached_property
    def gains(self) -> Gains:
        accepted = (one.comparison for one in self.tasks if one.comparison)
        return Gains(tuple(one.gain for one in accepted if one.accepted), len(self.tasks))

    @property
    def is_simulated(self) -> bool:
        return any(one.tree.simulated for one in self.tasks)

    @property
    def num_trials(self) -> int:
        return sum(len(one.curve) for one in self.tasks)


def read_story(work_dir: Path, memory: Store | None, home: Path) -> Story:
    """Read a work_dir; `memory` is asked what came of carrying its decisions elsewhere.

    `home` keeps the roofs of machines. Raises UsageError where nothing was tuned there.
    """
    journal = work_dir / JOURNAL
    if not journal.is_file():
        raise UsageError(
            f"--work-dir {work_dir}: no {JOURNAL} in it; give a folder that `kope tune` worked in"
        )
    with closing(Store.open(str(journal))) as store:
        past = sorted(store.experiences(), key=lambda one: one.at)
        carried = transfers(memory or store)
    if not past:
        raise UsageError(f"--work-dir {work_dir}: nothing is on record there yet; tune first")
    runs = read_runs(work_dir)
    roof = _roof(runs, home)
    exchanges = _exchanges(work_dir / EXCHANGES)
    return Story(
        str(work_dir),
        _tasks(past, Settled(work_dir), roof),
        runs,
        _refusals(past),
        tokens_by_section(exchanges),
        len(exchanges),
        sum(one.reply.mode == "replay" for one in exchanges),
        carried,
        roof,
    )


def _tasks(
    past: Sequence[Experience], settled: Settled, roof: Roof | None
) -> tuple[TaskStory, ...]:
    graph = ExperienceGraph()
    for one in past:
        graph.add(one)
    tasks = [_task(tree, past, settled, roof) for tree in decision_trees(graph)]
    return tuple(sorted(tasks, key=lambda one: -one.tree.baseline_secs))


def _task(
    tree: DecisionTree, past: Sequence[Experience], settled: Settled, roof: Roof | None
) -> TaskStory:
    own = [one for one in past if one.task_key == tree.task_key]
    features = own[-1].features
    return TaskStory(
        tree,
        features,
        best_so_far(own),
        settled.comparison(tree.task_key),
        roof.secs(features) if roof else 0.0,
    )


def best_so_far(past: Iterable[Experience]) -> tuple[float, ...]:
    """The best time after each candidate that went to the device, oldest first."""
    best, curve = float("inf"), []
    for one in past:
        if one.accepted:
            secs = sorted(one.run_secs)[len(one.run_secs) // 2] if one.run_secs else best
            best = min(best, float("inf") if one.suspicious else secs)
            curve.append(best)
    return tuple(curve)


def _refusals(past: Iterable[Experience]) -> tuple[tuple[str, int], ...]:
    count = Counter(one.code for one in past if one.code)
    return tuple(sorted(count.items(), key=lambda pair: (-pair[1], pair[0])))


def _exchanges(path: Path) -> tuple[Exchange, ...]:
    return read_exchanges(path) if path.is_file() else ()


def _roof(runs: Sequence[RunRecord], home: Path) -> Roof | None:
    """Of the last run's machine, where it was measured with this toolchain."""
    try:
        return known_roof(load_target(runs[-1].call.target), home) if runs else None
    except KopeError:  # A target file that is gone: the page does without its roof.
        return None
