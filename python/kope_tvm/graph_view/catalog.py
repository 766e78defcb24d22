# SPDX-License-Identifier: Apache-2.0
"""What a memory has on record, task by task and machine by machine, and finding some of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kope_tvm.memory.rows import Outline
from kope_tvm.memory.store import Store

_CHUNK = 500
_SHORTEST_PREFIX = 4


@dataclass(frozen=True)
class OnRecord:
    """A task on a machine: one decision tree."""

    task_key: str
    task_name: str
    op_class: str
    machine_key: str
    simulated: bool
    num_decisions: int
    num_failed: int


def on_record(store: Store) -> tuple[OnRecord, ...]:
    """Every task on every machine that it was tried on, by name."""
    groups: dict[tuple[str, str, bool], list[Outline]] = {}
    newest: dict[str, int] = {}
    for page in store.outlines():
        for one in page:
            groups.setdefault((one.task_key, one.machine_key, one.simulated), []).append(one)
            newest[one.task_key] = one.id
    names, features = _names(store, list(newest.values())), store.features(newest)
    found = (
        OnRecord(
            *(task_key, names.get(newest[task_key], ""), features[task_key].op_class),
            *(machine_key, simulated),
            num_decisions=len(each),
            num_failed=sum(1 for one in each if one.code),
        )
        for (task_key, machine_key, simulated), each in groups.items()
    )
    return tuple(sorted(found, key=lambda one: (one.task_name, one.task_key, one.machine_key)))


def _names(store: Store, ids: list[int]) -> dict[int, str]:
    names: dict[int, str] = {}
    for start in range(0, len(ids), _CHUNK):
        edges = store.edges_by_id(ids[start : start + _CHUNK])
        names.update({number: edge.task_name for number, edge in edges.items()})
    return names


def named(text: str, found: Iterable[OnRecord]) -> tuple[OnRecord, ...]:
    """Those of tasks of this name, or whose key starts like this."""
    is_prefix = len(text) >= _SHORTEST_PREFIX
    return tuple(
        one
        for one in found
        if one.task_name == text or (is_prefix and one.task_key.startswith(text))
    )
