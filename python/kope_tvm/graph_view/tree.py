# SPDX-License-Identifier: Apache-2.0
"""Decision trees: what was tried on a task on one machine, each decision below what it changed."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from statistics import median

from kope_tvm.memory.experience import Experience
from kope_tvm.memory.graph import ExperienceGraph
from kope_tvm.memory.rows import measured_secs


@dataclass(frozen=True)
class Branch:
    """A decision at its place in the tree."""

    key: str
    """`rows.experience_key`."""
    under: str
    """Key of the branch that led to the state it started from; empty for the untuned function."""
    experience: Experience
    secs: float | None
    """None where it failed."""
    ratio: float | None
    """Time before it over time after it; None where one of them is unknown."""
    speedup: float | None
    """Untuned time over its own."""
    is_winning: bool
    """Whether it lies on the way to the fastest honest one."""
    mends: tuple[str, ...] = ()
    """Keys of the failures that it repairs."""


@dataclass(frozen=True)
class Hidden:
    """Decisions that are left out below a branch, with all that follows from them."""

    under: str
    num_decisions: int
    num_failed: int
    best_speedup: float | None


@dataclass(frozen=True)
class DecisionTree:
    """All that was tried on one task on one machine."""

    task_key: str
    task_name: str
    what: str
    """Operator class, loop extents and dtypes."""
    machine_key: str
    simulated: bool
    baseline_secs: float
    """Of the untuned function, the median over the runs; 0 where unknown."""
    branches: tuple[Branch, ...]
    """Each after the one it is under; of those under one, the most telling first."""
    hidden: tuple[Hidden, ...] = ()

    @property
    def best(self) -> Branch | None:
        """The fastest honest one."""
        return max(
            (one for one in self.branches if one.is_winning),
            key=lambda one: -(one.secs or float("inf")),
            default=None,
        )

    @property
    def num_hidden(self) -> int:
        return sum(one.num_decisions for one in self.hidden)

    @property
    def num_failed(self) -> int:
        shown = sum(1 for one in self.branches if one.experience.code)
        return shown + sum(one.num_failed for one in self.hidden)


Found = dict[str, Experience]
"""Decisions by their keys."""


def decision_trees(
    graph: ExperienceGraph, *, machine_key: str | None = None
) -> tuple[DecisionTree, ...]:
    """The trees of a graph, a task's together, by name."""
    groups: dict[tuple[str, str, bool], Found] = {}
    for key, experience in graph.decisions():
        if machine_key in (None, experience.machine_key):
            place = experience.task_key, experience.machine_key, experience.simulated
            groups.setdefault(place, {})[key] = experience
    mends: dict[str, list[str]] = {}
    for link in graph.links():
        if link.kind == "repairs":
            mends.setdefault(link.target, []).append(link.source)
    trees = [_tree(found, mends) for found in groups.values()]
    return tuple(sorted(trees, key=lambda tree: (tree.task_name, tree.task_key, tree.machine_key)))


def _tree(found: Found, mends: Mapping[str, list[str]]) -> DecisionTree:
    under = _places(found)
    winning = set(_way(_fastest(found), under))
    newest = max(found.values(), key=lambda one: one.at)
    branches = {
        key: _branch(key, found, under[key], key in winning, tuple(mends.get(key, ())))
        for key in under
    }
    known = [one.baseline_secs for one in found.values() if one.baseline_secs > 0]
    return DecisionTree(
        task_key=newest.task_key,
        task_name=newest.task_name,
        what=_what(newest),
        machine_key=newest.machine_key,
        simulated=newest.simulated,
        baseline_secs=median(known) if known else 0.0,
        branches=tuple(preorder(branches.values())),
    )


def _places(found: Found) -> dict[str, str]:
    """The key that each decision is under.

    A state that several decisions led to is entered by the one over the fewest steps, of these by
    the fastest. What starts from a state that is not on record is under the untuned function.
    """
    children: dict[str, list[str]] = {}
    for key in sorted(found, key=lambda key: _rank(found[key])):
        children.setdefault(found[key].parent, []).append(key)
    states = {one.state for one in found.values()}
    under: dict[str, str] = {}
    entered: set[str] = set()

    def grow(starts: Iterable[str]) -> None:
        queue = deque(starts)
        under.update(dict.fromkeys(queue, ""))
        while queue:
            key = queue.popleft()
            state = found[key].state
            below = [] if state in entered else children.get(state, [])
            entered.add(state)
            for child in below:
                if child not in under:
                    under[child] = key
                    queue.append(child)

    grow(key for parent, keys in children.items() if parent not in states for key in keys)
    # What is left lies on cycles, which are cut at their oldest decision.
    for key in sorted(found, key=lambda key: found[key].at):
        if key not in under:
            grow((key,))
    return under


def _rank(experience: Experience) -> tuple[float, float, int, int]:
    secs = measured_secs(experience)
    speed = float("inf") if secs is None or experience.suspicious else secs
    return speed, experience.at, experience.round_no, experience.order


def _fastest(found: Found) -> str:
    key = min(found, key=lambda key: _rank(found[key]))
    return "" if _rank(found[key])[0] == float("inf") else key


def _way(key: str, under: Mapping[str, str]) -> Iterator[str]:
    while key:
        yield key
        key = under[key]


def _branch(key: str, found: Found, under: str, is_winning: bool, mends: tuple[str, ...]) -> Branch:
    experience = found[key]
    secs, speedup = measured_secs(experience), _speedup(experience)
    ratio = _ratio(found[under], experience) if under else speedup
    return Branch(key, under, experience, secs, ratio, speedup, is_winning, mends)


def _ratio(before: Experience, after: Experience) -> float | None:
    """By speed-up where the untuned function was timed in both runs, which cancels the weather."""
    old, new = _speedup(before), _speedup(after)
    if old and new and before.run_id != after.run_id:
        return new / old
    then, now = measured_secs(before), measured_secs(after)
    return then / now if then and now else None


def _speedup(experience: Experience) -> float | None:
    secs = measured_secs(experience)
    return experience.baseline_secs / secs if secs and experience.baseline_secs > 0 else None


def _what(experience: Experience) -> str:
    features = experience.features
    extents = "x".join(map(str, features.spatial_extents + features.reduce_extents))
    return " ".join(filter(None, (features.op_class, extents, *dict.fromkeys(features.dtypes))))


def preorder(branches: Iterable[Branch]) -> Iterator[Branch]:
    """Branches so that each is followed by what is under it; the winning one of a place first."""
    children: dict[str, list[Branch]] = {}
    for one in branches:
        children.setdefault(one.under, []).append(one)
    stack = _last_first(children.get("", ()))
    while stack:
        one = stack.pop()
        yield one
        stack += _last_first(children.get(one.key, ()))


def _last_first(branches: Iterable[Branch]) -> list[Branch]:
    order = sorted(branches, key=lambda one: (not one.is_winning, *_rank(one.experience)))
    return order[::-1]
