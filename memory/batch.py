# SPDX-License-Identifier: Apache-2.0
"""The rows of some experiences, written in one transaction."""

from __future__ import annotations

import sqlalchemy as sa

from kope_tvm.memory import repairs, rows
from kope_tvm.memory.database import insert
from kope_tvm.memory.experience import Experience


class Batch:
    """The rows of some experiences, without the nodes that are known to be there already."""

    def __init__(self, known: set[tuple[str, ...]]) -> None:
        self.nodes: set[tuple[str, ...]] = set()
        self._known = known
        self._rows: dict[str, list[rows.Row]] = {name: [] for name in (*rows.NODES, "decision")}

    def add(self, experience: Experience) -> None:
        """Take in one experience as `rows.clean` leaves it."""
        task, proposal = rows.task_row(experience), rows.proposal_row(experience)
        self._node(("task", task["key"], task["features"]), task)
        machine = rows.Machine.from_key(experience.machine_key)
        self._node(("machine", machine.key), rows.machine_row(machine, "", 0.0))
        for state in (experience.parent, experience.state):
            key = ("state", experience.task_key, state)
            self._node(key, {"task_key": experience.task_key, "key": state})
        self._node(("proposal", proposal["key"]), proposal)
        self._rows["decision"].append(rows.decision_row(experience, proposal["key"]))

    def _node(self, key: tuple[str, ...], row: rows.Row) -> None:
        if key not in self._known and key not in self.nodes:
            self.nodes.add(key)
            self._rows[key[0]].append(row)

    def write(self, connection: sa.Connection) -> int:
        """Nodes before edges; how many decisions were new."""
        # In one order everywhere: PostgreSQL locks rows as they come.
        for name in rows.NODES:
            batch = sorted(self._rows[name], key=lambda row: (row.get("task_key", ""), row["key"]))
            insert(connection, name, batch)
        num_new = insert(connection, "decision", self._rows["decision"])
        repairs.link(connection, [row["key"] for row in self._rows["decision"] if row["repairs"]])
        return num_new
