# SPDX-License-Identifier: Apache-2.0
"""The experience graph in memory: what led to what, what else was tried, and what came of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import networkx as nx

from kope_tvm.memory.experience import Experience
from kope_tvm.memory.rows import experience_key, measured_secs

_Node = tuple[str, ...]
"""`("task", key)`, `("machine", key)` or `("state", task key, state)`."""


@dataclass(frozen=True)
class Link:
    """An edge between two decisions, by their keys."""

    kind: str
    """`repairs`: the second mends the first; `transfers`: it carries it over to its own task."""
    source: str
    target: str


class Source(Protocol):
    """What the graph needs of a store."""

    def experiences(
        self, machine_key: str | None = None, task_key: str | None = None
    ) -> Iterator[Experience]: ...


class ExperienceGraph:
    """States with decisions between them; each task node leads to its untuned state."""

    def __init__(self) -> None:
        self.nx: Any = nx.MultiDiGraph()

    @classmethod
    def from_store(
        cls, store: Source, *, task_key: str | None = None, machine_key: str | None = None
    ) -> ExperienceGraph:
        """The graph of a store, or of one task or machine in it."""
        graph = cls()
        for experience in store.experiences(machine_key=machine_key, task_key=task_key):
            graph.add(experience)
        return graph

    def add(self, experience: Experience) -> None:
        """Add one decision; adding it again changes nothing."""
        task: _Node = ("task", experience.task_key)
        root = _state(experience.task_key, "")
        state = _state(experience.task_key, experience.state)
        self.nx.add_node(task, kind="task", name=experience.task_name, features=experience.features)
        self.nx.add_node(root, kind="state")
        self.nx.add_node(state, kind="state")
        self.nx.add_node(("machine", experience.machine_key), kind="machine")
        self.nx.add_edge(task, root, key="untuned", kind="untuned")
        self.nx.add_edge(
            _state(experience.task_key, experience.parent),
            state,
            key=experience_key(experience),
            kind="decision",
            experience=experience,
        )
        # A machine leads to the tasks it ran, so that either can be listed by the other.
        self.nx.add_edge(("machine", experience.machine_key), task, key="ran", kind="ran")

    def decisions(self) -> Iterator[tuple[str, Experience]]:
        """Every decision with its key."""
        for _, _, key, experience in self.nx.edges(keys=True, data="experience"):
            if experience is not None:
                yield key, experience

    def links(self) -> Iterator[Link]:
        """Repairs and transfers between the decisions that are in the graph."""
        known = dict(self.decisions())
        failed: dict[tuple[str, ...], list[str]] = {}
        for key, experience in known.items():
            if experience.code:
                failed.setdefault(_place(experience, experience.state), []).append(key)
        for key, experience in known.items():
            if experience.repairs:
                for source in failed.get(_place(experience, experience.repairs), ()):
                    if source != key:
                        yield Link("repairs", source, key)
            if experience.source in known:
                yield Link("transfers", experience.source, key)

    def best(self, task_key: str, machine_key: str) -> Experience | None:
        """The fastest honest experience of a task on a machine."""
        times = [
            (secs, experience.at, experience)
            for experience in self._of_task(task_key)
            if experience.machine_key == machine_key and not experience.suspicious
            and (secs := measured_secs(experience)) is not None
        ]  # fmt: skip
        return min(times, key=lambda item: item[:2])[2] if times else None

    def decision_path(self, task_key: str, state: str) -> tuple[Experience, ...]:
        """The decisions that lead from the untuned function to a state, over the fewest steps.

        Empty where nothing leads there.
        """
        root, end = _state(task_key, ""), _state(task_key, state)
        if root not in self.nx or end not in self.nx or not nx.has_path(self.nx, root, end):
            return ()
        nodes = nx.shortest_path(self.nx, root, end)
        return tuple(self._between(*step) for step in pairwise(nodes))

    def siblings(self, experience: Experience) -> tuple[Experience, ...]:
        """The other decisions taken from the same state, failures too, oldest first."""
        parent = _state(experience.task_key, experience.parent)
        if parent not in self.nx:
            return ()
        own = experience_key(experience)
        others = [
            data["experience"]
            for _, _, key, data in self.nx.out_edges(parent, keys=True, data=True)
            if key != own
        ]
        return tuple(sorted(others, key=_when))

    def _of_task(self, task_key: str) -> list[Experience]:
        root = _state(task_key, "")
        if root not in self.nx:
            return []
        states = [node for node in self.nx if node[0] == "state" and node[1] == task_key]
        edges = self.nx.out_edges(states, data="experience")
        return [experience for _, _, experience in edges]

    def _between(self, parent: _Node, state: _Node) -> Experience:
        """The decision of a step: the fastest measurement, or else the first attempt."""
        edges: list[Experience] = [data["experience"] for data in self.nx[parent][state].values()]
        return min(edges, key=lambda item: (measured_secs(item) or float("inf"), *_when(item)))


def _state(task_key: str, state: str) -> _Node:
    return ("state", task_key, state)


def _place(experience: Experience, state: str) -> tuple[str, ...]:
    return experience.task_key, experience.run_id, state


def _when(experience: Experience) -> tuple[float, int, int]:
    return experience.at, experience.round_no, experience.order
