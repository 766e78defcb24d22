# SPDX-License-Identifier: Apache-2.0
"""The rows of some experiences, written in one transaction."""

from __future__ import annotations

import sqlalchemy as sa

from kope_tvm.memory import links, rows
from kope_tvm.memory.database import insert
from kope_tvm.memory.experience import Experience


class Batch:
    """The rows of some experiences, without the machines that are known to be there already."""

    def __init__(self, known_machines: set[str]) -> None:
        self._known_machines = known_machines
        self._nodes: dict[str, dict[str, rows.Row]] = {name: {} for name in rows.NODES}
        self._decisions: list[rows.Row] = []

    @property
    def machines(self) -> set[str]:
        return set(self._nodes["machine"])

    def add(self, experience: Experience) -> None:
        """Take in one experience as `rows.clean` leaves it."""
        self._add_task(experience)
        self.add_edge(experience)

    def add_edge(self, experience: Experience) -> None:
        """Take in all of it but its task, which is there already."""
        key = experience.machine_key
        if key not in self._known_machines:
            machine = rows.machine_row(rows.Machine.from_key(key), "", 0.0)
            self._nodes["machine"].setdefault(key, machine)
        for state in (experience.parent, experience.state):
            row = {"task_key": experience.task_key, "key": state}
            self._nodes["state"][f"{experience.task_key} {state}"] = row
        proposal = rows.proposal_row(experience)
        self._nodes["proposal"][proposal["key"]] = proposal
        self._decisions.append(rows.decision_row(experience, proposal["key"]))

    def _add_task(self, experience: Experience) -> None:
        """Keep the newest of each: several in one statement would each be an update."""
        key, name, features = experience.task_key, experience.task_name, experience.features
        row = rows.task_row(key, name, features, experience.at)
        known = self._nodes["task"].setdefault(key, row)
        if _age(row) > _age(known):
            self._nodes["task"][key] = row

    def write(self, connection: sa.Connection) -> int:
        """Nodes before edges; how many decisions were new."""
        # In one order everywhere: PostgreSQL locks rows as they come.
        for name, nodes in self._nodes.items():
            insert(connection, name, [nodes[key] for key in sorted(nodes)])
        num_new = insert(connection, "decision", self._decisions)
        links.link(connection, self._decisions)
        return num_new


def _age(task: rows.Row) -> tuple[float, str, str]:
    """As the store compares two of one key."""
    return task["seen_at"], task["features"], task["name"]
